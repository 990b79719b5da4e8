//! Outlines of documents as the vendor's compiler leaves them, by hand: commands, places, and what is refused.

use std::collections::BTreeMap;

use triune_device::command::decode;
use triune_graph::format::xir::{Chip, ElementType, TensorType};

use super::*;
use crate::form;

/// A buffer of a plan.
fn buffer(segment: u16, offset: u64, bytes: u64, first: u32, last: u32, reads: u32) -> PlannedBuffer {
    PlannedBuffer { segment, offset, bytes, first, last, reads }
}

/// A value of the axes that the names say, `c` for channels within a block.
fn value(names: &str, shape: &[i64], element: Scalar, mtype: Mem) -> Value {
    let (element, layout) = (ElementType::Scalar(element), form::layout(names));
    let dtype = TensorType { element, shape: shape.to_vec(), layout, merged: Vec::new() };
    Value { v_id: 0, name: String::new(), dtype, mtype, tags: BTreeMap::new(), params: None }
}

const I8: Scalar = Scalar::Signed(8);

fn map(shape: [i64; 4], address: u64) -> Value {
    value("NHWC", &shape, I8, Mem::External(address))
}

/// An operator with commands of that class, on BUYI.
fn hard(op_id: i64, class: &str, inputs: &[usize], outputs: &[usize]) -> Operation {
    Operation {
        type_key: HARD_OP.into(),
        op_id,
        name: format!("icraft::xir::{class}"),
        target: Target::Buyi,
        tags: BTreeMap::new(),
        inputs: inputs.iter().copied().map(Some).collect(),
        outputs: outputs.to_vec(),
        attributes: BTreeMap::new(),
    }
}

fn document(values: Vec<Value>, ops: Vec<Operation>) -> Document {
    Document { values, ops, ..Document::default() }
}

fn outlined(document: &Document) -> Result<Outlined, Error> {
    Estimate::new(document, Path::new("net.json"))?.program()
}

/// The commands of an outline but the end.
fn commands(program: &Program) -> Vec<Command> {
    let mut commands = decode(&program.instructions).unwrap();
    assert!(matches!(commands.pop(), Some(Command::End(_))));
    commands
}

/// The one command of an operator from the first value to the second.
fn one(class: &str, values: Vec<Value>) -> Command {
    let inputs: Vec<usize> = (0..values.len()).filter(|&index| index != 1).collect();
    let (program, ..) = outlined(&document(values, vec![hard(1, class, &inputs, &[1])])).unwrap();
    let commands = commands(&program);
    assert_eq!(commands.len(), 1);
    commands[0]
}

#[test]
fn documents_without_times_are_refused() {
    let values = || vec![map([1, 4, 6, 8], 0), map([1, 4, 6, 8], 4096)];
    let add = || hard(7, "AddNode", &[0], &[1]);
    let of = |first: Value| document(vec![first, map([1, 4, 6, 8], 4096)], vec![add()]);
    let convolved = |weights: [i64; 4]| {
        let mut op = hard(7, "Conv2dNode", &[0], &[1]);
        op.attributes.insert("params".into(), Attribute::List(vec![Attribute::Value(2)]));
        let weights = value("HWIO", &weights, I8, Mem::External(0));
        document([values(), vec![weights]].concat(), vec![op])
    };
    let host = document(values(), vec![Operation { target: Target::Host, ..add() }]);
    let mixed = {
        let chunks = [0, 1].map(|id| value("NHWC", &[1, 2, 2, 8], I8, Mem::Chunk(id, 0)));
        let first = hard(1, "AddNode", &[2], &[3]);
        document([values(), chunks.to_vec()].concat(), vec![first, add()])
    };
    let wrong = "HardOp 7: extents that no feature map has";
    let beyond = "HardOp 7: a place beyond every memory";
    let empty = "HardOp 7: weights without elements";
    for (document, words) in [
        (document(values(), Vec::new()), "the document has no operators with commands"),
        (
            document(values(), vec![Operation { type_key: "icraft::xir::AddNode".into(), ..add() }]),
            "the document has no operators with commands",
        ),
        (host, "the time of operators on"),
        (
            document(values(), vec![hard(7, "AddNode", &[0], &[2])]),
            "HardOp 7: a value that the document does not have",
        ),
        (
            document(values(), vec![hard(7, "AddNode", &[5], &[1])]),
            "HardOp 7: a value that the document does not have",
        ),
        (document(values(), vec![hard(7, "AddNode", &[], &[1])]), "HardOp 7: nothing goes in or comes out"),
        (document(values(), vec![hard(7, "AddNode", &[0], &[])]), "HardOp 7: nothing goes in or comes out"),
        (of(map([1, -4, 6, 8], 0)), wrong),
        (of(map([1, 1 << 32, 1, 1], 0)), wrong),
        (of(map([1, 1 << 16, 1 << 16, 1], 0)), wrong),
        (
            of(value("NHWC", &[1, 4, 6, 8], Scalar::Float(64), Mem::External(0))),
            "HardOp 7: elements of a width that is not timed",
        ),
        (of(value("NHWC", &[1, 4, 6, 8], I8, Mem::Host)), "HardOp 7: a value in the host's memory"),
        (of(map([1, 4, 6, 8], Addr::MAX_OFFSET - 191)), beyond),
        (of(map([1, 4, 6, 8], u64::MAX - 191)), beyond),
        (of(value("NHWC", &[1, 4, 6, 8], I8, Mem::Chunk(0, u64::MAX - 191))), beyond),
        (of(value("NHWC", &[1, 4, 6, 8], I8, Mem::Chunk(0, 1 << 55))), beyond),
        (convolved([0, 3, 8, 8]), empty),
        (convolved([3, 0, 8, 8]), empty),
        (convolved([3, 3, 0, 8]), empty),
        (convolved([3, 3, 8, 0]), empty),
        (mixed, "some values lie at addresses, others in chunks"),
    ] {
        let error = outlined(&document).err().unwrap_or_else(|| panic!("{words}")).to_string();
        assert!(error.contains("net.json") && error.contains(words), "{words}: {error}");
    }
    // The last place that there is.
    outlined(&of(map([1, 4, 6, 8], Addr::MAX_OFFSET - 192))).unwrap();
    outlined(&convolved([1, 1, 8, 1])).unwrap();
}

#[test]
fn devices_are_those_of_the_targets() {
    for (target, name) in [(Target::Buyi, "buyi"), (Target::Zhuge(Chip::Zg330), "zg330")] {
        let op = Operation { target, ..hard(1, "AddNode", &[0], &[1]) };
        let (program, steps, _) =
            outlined(&document(vec![map([1, 2, 3, 8], 0), map([1, 2, 3, 8], 64)], vec![op])).unwrap();
        assert_eq!((&*program.target, steps), (name, vec![(0, 0..1)]));
    }
}

#[test]
fn convolutions_have_the_windows_of_their_extents() {
    // Extents in and out, the kernel, the channels that weights read; then the step, the border and the groups.
    type Row = ([i64; 4], [i64; 4], [i64; 4], [u32; 2], [u32; 4], u32);
    let rows: [Row; 5] = [
        ([1, 8, 6, 16], [1, 8, 6, 32], [3, 1, 16, 32], [1, 1], [1, 0, 1, 0], 1),
        ([2, 9, 7, 16], [2, 5, 3, 8], [3, 2, 16, 8], [2, 2], [1, 0, 1, 0], 1),
        ([1, 8, 12, 16], [1, 4, 4, 16], [2, 5, 4, 16], [2, 3], [0, 1, 0, 1], 4),
        ([1, 5, 5, 12], [1, 2, 2, 12], [4, 4, 1, 12], [3, 3], [1, 1, 1, 1], 12),
        // Channels that are no multiple are those of one group.
        ([1, 4, 4, 10], [1, 4, 4, 9], [1, 1, 4, 9], [1, 1], [0; 4], 1),
    ];
    for (from, to, [high, wide, inputs, outputs], stride, pad, groups) in rows {
        let mut op = hard(1, "Conv2dNode", &[0], &[1]);
        op.attributes.insert(
            "params".into(),
            Attribute::List(vec![Attribute::Null, Attribute::Value(2), Attribute::Value(3)]),
        );
        let values = vec![
            map(from, 0),
            map(to, 1 << 20),
            value("hwIO", &[high, wide, inputs, outputs], I8, Mem::External(640)),
            value("C", &[outputs], Scalar::Signed(32), Mem::Chunk(3, 7)),
        ];
        let (program, ..) = outlined(&document(values, vec![op])).unwrap();
        let [Command::QConv(conv)] = &*commands(&program) else { panic!("another command") };
        let window = Window { kernel: [high as u32, wide as u32], stride, dilation: [1; 2], pad, groups };
        assert_eq!(conv.window, window, "{from:?} to {to:?}");
        let extents = |map: &FeatureMap| [map.n, map.h, map.w, map.c].map(i64::from);
        assert_eq!(extents(&conv.input), from);
        assert_eq!(extents(&conv.output), [to[0], to[1], to[2], outputs]);
        assert_eq!((conv.input.dtype, conv.output.dtype), (DType::I8, DType::I8));
        assert_eq!(conv.weights, Addr::new(Program::CONSTANTS, 640));
        assert_eq!(conv.bias, Some(Addr::new(Program::CONSTANTS, 3 << 32 | 7)));
    }
    // Without weights there is nothing but to move.
    let moved = one("Conv2dNode", vec![map([1, 4, 6, 8], 0), map([1, 2, 3, 8], 4096)]);
    assert!(matches!(moved, Command::Copy(_)), "{moved:?}");
}

#[test]
fn pools_have_windows_of_their_steps() {
    let average = PoolKind::Average { count_include_pad: false };
    for (class, kind) in [
        ("MaxPool2dNode", PoolKind::Max),
        ("MaxpoolNode", PoolKind::Max),
        ("AvgPool2dNode", average),
        ("AvgpoolNode", average),
    ] {
        // Twice as wide, and as high: by 2 without a border, by 1 with a window of 3.
        let command = one(class, vec![map([1, 6, 8, 16], 0), map([1, 6, 4, 16], 4096)]);
        let Command::Pool(pool) = command else { panic!("{class}: {command:?}") };
        assert_eq!(pool.kind, kind, "{class}");
        let window =
            Window { kernel: [3, 2], stride: [1, 2], dilation: [1; 2], pad: [1, 0, 1, 0], groups: 1 };
        assert_eq!(pool.window, window);
    }
    let command = one("MaxpoolNode", vec![map([1, 9, 2, 16], 0), map([1, 3, 3, 16], 4096)]);
    let Command::Pool(pool) = command else { panic!("{command:?}") };
    assert_eq!((pool.window.kernel, pool.window.stride), ([3, 3], [3, 1]));
}

#[test]
fn elements_are_computed_or_moved() {
    let maps = || vec![map([1, 2, 3, 8], 0), map([1, 2, 3, 8], 4096), map([1, 2, 3, 8], 8192)];
    let scratch = |offset| Addr::new(Program::SCRATCH, offset);
    let Command::QAdd(add) = one("AddNode", maps()) else { panic!("no sum") };
    assert_eq!(
        (add.dims, add.a.addr, add.b.addr, add.output.addr),
        ([1, 1, 1, 1, 1, 48], scratch(0), scratch(8192), scratch(4096))
    );
    assert_eq!((add.a.strides, add.a.dtype), ([0, 0, 0, 0, 0, 1], DType::I8));
    let Command::QMul(product) = one("MultiplyNode", maps()) else { panic!("no product") };
    assert_eq!((product.dims[5], product.b.addr), (48, scratch(8192)));
    // One operand is both.
    let Command::QAdd(add) = one("AddNode", maps()[..2].to_vec()) else { panic!("no sum") };
    assert_eq!((add.a.addr, add.b.addr), (scratch(0), scratch(0)));
    for class in ["UpsampleNode", "ResizeNode"] {
        let Command::Resize(resize) = one(class, maps()[..2].to_vec()) else { panic!("{class}") };
        assert_eq!((resize.input.addr, resize.output.addr), (scratch(0), scratch(4096)));
    }
    // Whatever else there is moves as many elements as both have.
    let narrow = value("NHWC", &[1, 2, 2, 5], Scalar::Float(32), Mem::External(4096));
    let wide = value("NHWC", &[1, 2, 3, 8], Scalar::Float(32), Mem::OnChip(256));
    for (from, to) in [(wide.clone(), narrow.clone()), (narrow, wide)] {
        let Command::Copy(copy) = one("SliceNode", vec![from, to]) else { panic!("no copy") };
        assert_eq!((copy.elem_bytes, copy.dims), (4, [1, 1, 1, 1, 1, 20]));
        assert_eq!((copy.src_strides, copy.dst_strides), ([0, 0, 0, 0, 0, 4], [0, 0, 0, 0, 0, 4]));
    }
}

#[test]
fn elements_have_the_types_of_their_width() {
    for (element, dtype) in [
        (Scalar::Unsigned(8), DType::U8),
        (Scalar::Signed(8), DType::I8),
        (Scalar::Float(16), DType::F16),
        (Scalar::Signed(16), DType::F16),
        (Scalar::Float(32), DType::F32),
        (Scalar::Unsigned(32), DType::F32),
    ] {
        let values = [0, 4096].map(|at| value("NHWC", &[1, 2, 3, 8], element, Mem::External(at)));
        let Command::Pool(pool) = one("MaxpoolNode", values.to_vec()) else { panic!("no pool") };
        assert_eq!((pool.input.dtype, pool.output.dtype), (dtype, dtype), "{element:?}");
    }
}

#[test]
fn values_are_maps_by_their_axes() {
    for (names, shape, extents) in [
        ("NHWC", &[2, 3, 4, 5][..], [2, 3, 4, 5]),
        ("NCHWc", &[2, 3, 4, 5, 16], [2, 4, 5, 48]),
        ("*C", &[6, 5], [1, 1, 6, 5]),
        ("**C", &[2, 3, 5], [1, 1, 6, 5]),
        ("*Cc", &[3, 2, 8], [1, 1, 3, 16]),
        ("C", &[7], [1, 1, 1, 7]),
        ("NHWC", &[2, 3, 4, 0], [2, 3, 4, 0]),
    ] {
        let from = value(names, shape, I8, Mem::External(0));
        let Command::Pool(pool) = one("MaxpoolNode", vec![from, map([1, 1, 1, 1], 4096)]) else {
            panic!("{names}")
        };
        assert_eq!([pool.input.n, pool.input.h, pool.input.w, pool.input.c], extents, "{names}");
    }
}

/// Maps live from their first command to their last, and count who reads them; what has no commands has a place all the same.
#[test]
fn maps_live_as_long_as_commands_have_them() {
    let on_chip = value("NHWC", &[1, 2, 3, 8], I8, Mem::OnChip(32));
    let values = vec![map([1, 2, 3, 8], 64), on_chip, map([1, 2, 3, 16], 256), map([1, 1, 1, 40], 1024)];
    let mut nothing = hard(9, "AddNode", &[2], &[3]);
    nothing.attributes.insert("layer_count".into(), Attribute::Int(0));
    let mut one_layer = hard(4, "icraft::ConcatNode", &[0, 1, 0], &[2]);
    one_layer.attributes.insert("layer_count".into(), Attribute::Int(1));
    let between = Operation { type_key: "icraft::xir::CastNode".into(), ..hard(8, "CastNode", &[9], &[9]) };
    let ops = vec![hard(3, "AddNode", &[0], &[1]), between, one_layer, nothing];
    let (program, steps, places) = outlined(&document(values, ops)).unwrap();
    assert_eq!(steps, [(0, 0..1), (2, 1..4), (3, 4..4)]);
    let named: Vec<_> =
        program.operators.iter().map(|each| (&*each.name, &*each.kind, each.first, each.last)).collect();
    assert_eq!(named, [("Add 3", "Add", 0, 1), ("Concat 4", "Concat", 1, 4)]);
    let (far, near) = (Program::SCRATCH, Program::RESIDENT);
    assert_eq!(
        program.buffers,
        [
            buffer(far, 64, 48, 0, 4, 3),
            buffer(near, 32, 48, 0, 3, 1),
            buffer(far, 256, 96, 1, 5, 1),
            buffer(far, 1024, 40, 4, 5, 0),
        ]
    );
    assert_eq!(program.scratch_bytes, 1064);
    assert_eq!(places[&Mem::External(1024)], (far, 1024));
    assert_eq!(places[&Mem::OnChip(32)], (near, 32));
    assert_eq!(places.len(), 4);
    let copies: Vec<u64> = commands(&program)[1..]
        .iter()
        .map(|command| match command {
            Command::Copy(copy) => copy.src.offset(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(copies, [64, 32, 64]);
}

/// Chunks of virtual memory are planned: values lie in them where the document says.
#[test]
fn chunks_are_placed_by_a_plan() {
    let chunk = |shape: [i64; 4], id, offset| value("NHWC", &shape, I8, Mem::Chunk(id, offset));
    let values = vec![
        chunk([1, 4, 4, 8], 5, 0),
        chunk([1, 4, 4, 16], 2, 64),
        chunk([1, 2, 4, 8], 5, 128),
        chunk([1, 4, 4, 16], 9, 0),
    ];
    let ops =
        vec![hard(1, "AddNode", &[0], &[1]), hard(2, "AddNode", &[1], &[2]), hard(3, "AddNode", &[1], &[3])];
    let (program, _, places) = outlined(&document(values, ops)).unwrap();
    let [base, inner] = [Mem::Chunk(5, 0), Mem::Chunk(5, 128)].map(|mem| places[&mem]);
    assert_eq!(inner, (base.0, base.1 + 128));
    let mut sizes: Vec<_> = program.buffers.iter().map(|each| (each.bytes, each.first, each.last)).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [(192, 0, 2), (256, 2, 3), (320, 0, 3)]);
}

#[test]
fn maps_that_share_bytes_while_both_live_are_one() {
    let base = || buffer(2, 100, 20, 3, 6, 1);
    for (other, shared) in [
        (buffer(2, 119, 4, 5, 9, 2), Some(buffer(2, 100, 23, 3, 9, 3))),
        (buffer(2, 96, 5, 0, 4, 2), Some(buffer(2, 96, 24, 0, 6, 3))),
        (buffer(2, 104, 4, 4, 5, 2), Some(buffer(2, 100, 20, 3, 6, 3))),
        // Side by side, one after the other, elsewhere.
        (buffer(2, 120, 4, 3, 6, 2), None),
        (buffer(2, 96, 4, 3, 6, 2), None),
        (buffer(2, 100, 20, 6, 7, 2), None),
        (buffer(2, 100, 20, 0, 3, 2), None),
        (buffer(3, 100, 20, 3, 6, 2), None),
    ] {
        let found = joined(vec![base(), other]);
        match shared {
            Some(shared) => assert_eq!(found, [shared]),
            None => assert_eq!(found.len(), 2, "{other:?}"),
        }
    }
    // The first and the second meet only through the third.
    let parts = vec![buffer(2, 0, 8, 0, 9, 1), buffer(2, 8, 8, 0, 9, 1), buffer(2, 0, 16, 0, 9, 1)];
    assert_eq!(joined(parts), [buffer(2, 0, 16, 0, 9, 3)]);
}

/// A document of the vendor's stands for its time alone.
#[test]
fn a_document_without_a_program_does_not_run() {
    let plain =
        document(vec![map([1, 2, 3, 8], 0), map([1, 2, 3, 8], 64)], vec![hard(1, "AddNode", &[0], &[1])]);
    let (outline, runs) = program(&plain, Path::new("net.json")).unwrap();
    assert!(!runs && outline.operators.len() == 1);
    let mut tagged = plain;
    tagged.tags.insert(PROGRAM_TAG.into(), serde_json::Value::Null);
    assert!(program(&tagged, Path::new("net.json")).is_err());
}
