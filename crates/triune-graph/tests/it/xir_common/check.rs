//! Attributes, places and comparisons that tests of operators share.

use triune_graph::format::xir::{Attribute, ElementType, Scalar};
use triune_testing::Tensor;

use super::net::Place;

/// The axes of images in the graph's order.
pub(crate) const NAMES: &str = "NCHW";
/// Reals.
pub(crate) const F32: ElementType = ElementType::Scalar(Scalar::Float(32));

/// A number.
pub(crate) fn float(value: f64) -> Attribute {
    Attribute::Float(value)
}

/// A string.
pub(crate) fn text(value: &str) -> Attribute {
    Attribute::Text(value.into())
}

/// A whole number.
pub(crate) fn int(value: i64) -> Attribute {
    Attribute::Int(value)
}

/// Largest difference, relative to 1 or the value.
pub(crate) fn close(found: &Tensor, expected: &[f64], what: &str) {
    let found = found.reals();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (own, wanted)) in found.iter().zip(expected).enumerate() {
        let error = (own - wanted).abs() / wanted.abs().max(1.0);
        assert!(error < 1e-5 || own == wanted, "{what}: element {at} is {own}, expected {wanted}");
    }
}

/// Layouts of images of five channels.
pub(crate) fn images() -> Vec<Place> {
    vec![
        Place::new("NHWC"),
        Place::new("NCHW"),
        Place::new("NCHWc4"),
        Place::new("NCHWc4").padded('C', &[(1, 3), (6, 9)], 12),
        Place::new("NHWC").padded('C', &[(0, 5)], 8),
        Place::new("*C**c2").padded('C', &[(0, 5)], 6),
    ]
    .into_iter()
    .map(|mut place| {
        for axis in &mut place.layout.axes {
            if axis.name == '*' {
                // The others are called by their names here; their order is that of NCHW.
                axis.name = '?';
            }
        }
        let others = ['N', 'H', 'W'];
        let mut next = 0;
        for axis in &mut place.layout.axes {
            if axis.name == '?' {
                axis.name = others[next];
                next += 1;
            }
        }
        place
    })
    .collect()
}

/// A pool's window, and its padding at top, left, bottom and right.
pub(crate) fn pool_attributes(
    kernel: [i64; 2],
    stride: i64,
    pad: [i64; 4],
) -> Vec<(&'static str, Attribute)> {
    vec![
        ("pool_height", int(kernel[0])),
        ("pool_width", int(kernel[1])),
        ("stride_height", int(stride)),
        ("stride_width", int(stride)),
        ("pad_top", int(pad[0])),
        ("pad_left", int(pad[1])),
        ("pad_bottom", int(pad[2])),
        ("pad_right", int(pad[3])),
    ]
}
