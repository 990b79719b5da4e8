//! Sine and cosine of numbers of every size, which have to be taken modulo a turn with hundreds of digits of π.

use triune_tensor::function::UnaryKind;

fn of(x: f64) -> [f64; 2] {
    [UnaryKind::Sin, UnaryKind::Cos].map(|kind| kind.evaluate(x))
}

/// From each number follows what its double has: whatever is wrong with one size shows between it and the one before.
#[test]
fn doubles_follow_from_their_halves() {
    let mut state = 1_u32;
    for _ in 0..500 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Of 24 bits, as all sizes of f32 have them.
        let mut x = f64::from(1.0 + (state >> 9) as f32 / (1 << 23) as f32) / 16.0;
        if state & 1 == 1 {
            x = -x;
        }
        let [mut sin, mut cos] = of(x);
        assert!((sin - x.sin()).abs() < 1e-15 && (cos - x.cos()).abs() < 1e-15, "{x}");
        while x.abs() < f64::from(f32::MAX) / 2.0 {
            let double = of(2.0 * x);
            let wanted = [2.0 * sin * cos, (cos - sin) * (cos + sin)];
            for (got, wanted) in double.into_iter().zip(wanted) {
                assert!((got - wanted).abs() < 4e-15, "of {}: {got}, but its half gives {wanted}", 2.0 * x);
            }
            x *= 2.0;
            [sin, cos] = double;
        }
    }
}
