//! Operators over nothing: a reduction of no elements gives what it starts from, and no elements take no commands.

use crate::common::{commands, compiled, mnemonics, run};
use triune_graph::{
    Graph, Op,
    ops::{ArgReduce, Reduce, ReduceKind},
};
use triune_tensor::DType;
use triune_testing::{GraphBuilder, Tensor};

fn reduced(dtype: DType, shape: &[usize], kind: ReduceKind, axes: &[isize]) -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", dtype, shape);
    let y = builder.node(Op::Reduce(Reduce::along(kind, axes)), &[x]);
    builder.finish(&[y])
}

#[test]
fn sums_and_products_of_nothing_are_what_they_start_from() {
    for dtype in [DType::F32, DType::F64, DType::I32, DType::I64, DType::U8] {
        for kind in [ReduceKind::Sum, ReduceKind::SumSquare, ReduceKind::Product] {
            for (shape, axes) in
                [(&[3, 0][..], &[1_isize][..]), (&[2, 0, 3], &[1]), (&[0, 5], &[0]), (&[0], &[0])]
            {
                let what = format!("{kind:?} of {dtype} {shape:?}");
                let (program, _) = compiled(&reduced(dtype, shape, kind, axes), false).expect("a program");
                assert_eq!(mnemonics(&commands(&program)), ["fill"], "{what}");
                let made = &run(&program, &[Tensor::from_bytes(dtype, shape, &[])])[0];
                let (start, count) = (f64::from(kind == ReduceKind::Product), made.elements());
                assert_eq!((made.dtype(), made.reals()), (dtype, vec![start; count]), "{what}");
            }
        }
    }
}

#[test]
fn no_results_take_no_commands() {
    for (shape, axes) in [(&[0, 3][..], &[1_isize][..]), (&[3, 0, 2], &[0, 2])] {
        let graph = reduced(DType::F32, shape, ReduceKind::Max, axes);
        let (program, _) = compiled(&graph, false).expect("a program");
        assert_eq!(mnemonics(&commands(&program)), [""; 0], "{shape:?}");
    }
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", DType::F32, &[0, 3]);
    let op = ArgReduce { kind: ReduceKind::Max, axis: 1, keep_dims: true, last: false, dtype: DType::I64 };
    let y = builder.node(Op::ArgReduce(op), &[x]);
    let (program, _) = compiled(&builder.finish(&[y]), false).expect("a program");
    assert_eq!(mnemonics(&commands(&program)), [""; 0]);
}
