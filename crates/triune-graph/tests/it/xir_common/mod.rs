//! Random documents, and documents by hand.

pub(crate) mod check;
pub(crate) mod net;
pub(crate) mod samples;

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use triune_graph::format::xir::{
    Attribute, Axis, Chip, Document, ElementType, ExpScale, Fill, Layout, Mem, MergedDistr, Operation,
    Params, Runs, Scalar, Scale, Section, Tags, Target, TensorType, Value,
};

pub(crate) fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        prop_oneof![Just(16), Just(32), Just(64)].prop_map(Scalar::Float),
        Just(Scalar::BFloat(16)),
        Just(Scalar::TFloat(32)),
        Just(Scalar::Split { exponent: 6, mantissa: 9, bits: 16 }),
        Just(Scalar::Split { exponent: 7, mantissa: 8, bits: 16 }),
        (1_u16..=64).prop_map(Scalar::Signed),
        (1_u16..=64).prop_map(Scalar::Unsigned),
        Just(Scalar::Bool),
    ]
}

fn finite() -> impl Strategy<Value = f32> {
    prop_oneof![any::<f32>().prop_filter("finite", |v| v.is_finite()), Just(1.0), Just(0.0), 0.0..1e-3_f32]
}

fn runs<T: Clone + std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Runs<T>> {
    (-4..5_i64, vec((1..1_000_000_u64, value), 0..5)).prop_map(|(axis, runs)| Runs { axis, runs })
}

pub(crate) fn ratios() -> impl Strategy<Value = Runs<f32>> {
    runs(finite())
}

pub(crate) fn scale() -> impl Strategy<Value = Scale> {
    let exp = (any::<i64>(), any::<i64>(), finite()).prop_map(|(m, exp, origin)| ExpScale { m, exp, origin });
    prop_oneof![runs(finite()).prop_map(Scale::Plain), runs(exp).prop_map(Scale::Exp)]
}

pub(crate) fn layout() -> impl Strategy<Value = Layout> {
    let upper = prop::sample::select("NHWDCIOL*".chars().collect::<Vec<_>>());
    let lower = prop::sample::select("nhwdciol".chars().collect::<Vec<_>>());
    let axis = prop_oneof![
        upper.prop_map(|name| Axis { name, unit: 0 }),
        (lower, 1..u64::MAX).prop_map(|(name, unit)| Axis { name, unit }),
    ];
    vec(axis, 0..7).prop_map(|axes| Layout { axes })
}

pub(crate) fn merged() -> impl Strategy<Value = MergedDistr> {
    let fill = option::of(prop_oneof![Just(Fill::Zero), Just(Fill::None)]);
    (vec(-3..9_i64, 0..4), fill, vec((any::<bool>(), 1..1_000_000_000_u64), 0..6)).prop_map(
        |(axes, fill, parts)| {
            let mut start = 0;
            let sections = parts.into_iter().map(|(valid, length)| {
                let end = start + length;
                let section = Section { valid, start, end };
                start = end;
                section
            });
            MergedDistr { axes, fill, sections: sections.collect() }
        },
    )
}

pub(crate) fn mem() -> impl Strategy<Value = Mem> {
    prop_oneof![
        Just(Mem::Host),
        any::<u64>().prop_map(Mem::OnChip),
        any::<u64>().prop_map(Mem::External),
        any::<(u16, u64)>().prop_map(|(id, offset)| Mem::Chunk(id, offset)),
    ]
}

pub(crate) fn target() -> impl Strategy<Value = Target> {
    prop::sample::select(vec![
        Target::Host,
        Target::Fpga,
        Target::Custom,
        Target::Buyi,
        Target::Wolong,
        Target::Zhuge(Chip::Zg330),
        Target::Zhuge(Chip::Zg340),
        Target::Zhuge(Chip::Zg30s),
    ])
}

fn double() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("a number", |v| !v.is_nan())
}

fn element() -> impl Strategy<Value = ElementType> {
    let numbers = || vec(double(), 0..3);
    let points = || vec(any::<i64>(), 0..3);
    prop_oneof![
        scalar().prop_map(ElementType::Scalar),
        (scalar(), scalar(), numbers(), numbers(), numbers()).prop_map(
            |(storage, expressed, min, max, sat)| {
                ElementType::Calibrated { storage, expressed, min, max, sat }
            }
        ),
        (scalar(), scalar(), ratios(), option::of(points())).prop_map(
            |(storage, expressed, ratio, zero_points)| {
                ElementType::Normalized { storage, expressed, ratio, zero_points }
            }
        ),
        (scalar(), scalar(), scale(), points()).prop_map(|(storage, expressed, scale, zero_points)| {
            ElementType::Quantized { storage, expressed, scale, zero_points }
        }),
        (scalar(), scalar(), ratios(), scale(), points()).prop_map(
            |(storage, expressed, ratio, scale, zero_points)| {
                ElementType::NormalizedQuantized { storage, expressed, ratio, scale, zero_points }
            }
        ),
    ]
}

fn tensor_type() -> impl Strategy<Value = TensorType> {
    (element(), vec(-1..6_i64, 0..5), layout(), vec(merged(), 0..2))
        .prop_map(|(element, shape, layout, merged)| TensorType { element, shape, layout, merged })
}

fn tags() -> impl Strategy<Value = Tags> {
    let item = prop_oneof![
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        ".{0,5}".prop_map(serde_json::Value::from),
        vec(any::<u8>(), 0..3).prop_map(serde_json::Value::from),
    ];
    prop::collection::btree_map("[a-z_]{1,6}", item, 0..3)
}

/// An attribute; values are given as any index, to be cut to the document's.
fn attribute() -> impl Strategy<Value = Attribute> {
    let leaf = prop_oneof![
        Just(Attribute::Null),
        any::<bool>().prop_map(Attribute::Bool),
        any::<i64>().prop_map(Attribute::Int),
        double().prop_map(Attribute::Float),
        "[@A-Z(]{0,8}".prop_map(Attribute::Text),
        tensor_type().prop_map(|item| Attribute::Type(Box::new(item))),
        // A scalar type in a string is a text like any other.
        element().prop_map(|item| match item {
            ElementType::Scalar(scalar) => Attribute::Text(scalar.to_string()),
            item => Attribute::Element(Box::new(item)),
        }),
        any::<usize>().prop_map(Attribute::Value),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Attribute::List),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..3).prop_map(Attribute::Map),
        ]
    })
}

type RawOp = (String, Target, Tags, Vec<Option<usize>>, Vec<usize>, BTreeMap<String, Attribute>);

fn operation() -> impl Strategy<Value = RawOp> {
    (
        ".{0,6}",
        target(),
        tags(),
        vec(option::of(any::<usize>()), 0..4),
        vec(any::<usize>(), 0..3),
        prop::collection::btree_map("x_[a-z]{1,4}", attribute(), 0..4),
    )
}

/// Documents whose constants with a size of up to some thousands of bytes have data.
pub(crate) fn document() -> impl Strategy<Value = Document> {
    let value = (".{0,5}", tensor_type(), mem(), tags(), option::of(any::<bool>()), any::<u8>());
    (vec(value, 1..6), vec(operation(), 0..5), option::of(target()), tags(), any::<[u8; 4]>()).prop_map(
        |(values, ops, ai_target, tags, ids)| {
            let mut document = Document {
                name: format!("net{}", ids[0]),
                ai_target,
                framework_kind: "ONNX".into(),
                framework_version: "1.2".into(),
                icraft_version: "v3.33.1".into(),
                icraft_xir_version: "3.33.1.0".into(),
                extra: BTreeMap::from([("swap_mode".to_owned(), serde_json::Value::from(ids[1]))]),
                tags,
                ..Document::default()
            };
            document.values = values
                .into_iter()
                .enumerate()
                .map(|(index, (name, dtype, mtype, tags, constant, byte))| {
                    let bytes = dtype.storage_bytes().filter(|&bytes| bytes < 8000);
                    let data = bytes.map(|bytes| Bytes::from(vec![byte; bytes as usize]));
                    let params =
                        constant.map(|optional| Params { allow_no_data: data.is_none() || optional, data });
                    Value { v_id: index as i64 * 3 + i64::from(ids[2]), name, dtype, mtype, tags, params }
                })
                .collect();
            for (index, (name, target, tags, inputs, outputs, attributes)) in ops.into_iter().enumerate() {
                let count = document.values.len();
                document.ops.push(Operation {
                    type_key: "icraft::xir::Conv2d".into(),
                    op_id: index as i64 + i64::from(ids[3]),
                    name,
                    target,
                    tags,
                    inputs: inputs.into_iter().map(|input| input.map(|input| input % count)).collect(),
                    outputs: outputs.into_iter().map(|output| output % count).collect(),
                    attributes: attributes
                        .into_iter()
                        .map(|(key, item)| (key, within(item, count)))
                        .collect(),
                });
            }
            document
        },
    )
}

fn within(attribute: Attribute, count: usize) -> Attribute {
    match attribute {
        Attribute::Value(index) => Attribute::Value(index % count),
        Attribute::List(items) => {
            Attribute::List(items.into_iter().map(|item| within(item, count)).collect())
        }
        Attribute::Map(items) => {
            Attribute::Map(items.into_iter().map(|(key, item)| (key, within(item, count))).collect())
        }
        other => other,
    }
}
