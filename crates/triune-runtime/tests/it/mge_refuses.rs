//! What the reader of MegEngine's models refuses: each row is a file that is wrong in one way, and the error names the operator
//! and what of it.

use crate::mge_common::{F32, Field, File, I32, Table, Type, dtype, qs8, qs32};
use triune_graph::{Error, format::mge};

const U: fn(u32) -> Field = Field::U32;

/// A file of one operator with these inputs, and the operator's number in it.
fn one(kind: &str, params: Option<(u8, Table)>, inputs: &[Given]) -> Vec<u8> {
    typed(kind, params, inputs, None)
}

/// The same with a type of its result.
fn typed(kind: &str, params: Option<(u8, Table)>, inputs: &[Given], of: Option<Type>) -> Vec<u8> {
    let mut file = File::default();
    let mut ids = Vec::new();
    for input in inputs {
        ids.push(match input {
            Given::Open(of, shape) => {
                let name = format!("x{}", ids.len());
                file.input(&name, *of, shape)
            }
            Given::Ints(values) => file.ints(values),
            Given::Floats(shape) => file.floats(shape, &vec![0.0; shape.iter().product()]),
            Given::Bytes(of, shape) => file.constant(*of, shape, vec![0; shape.iter().product()]),
            Given::Number(id) => *id,
        });
    }
    let result = file.node(kind, params, &ids, of);
    file.finish(&[result])
}

/// A file that reads a matrix's singular vectors, or gives them.
fn vectors(read: bool) -> Vec<u8> {
    let mut file = File::default();
    let x = file.input("x", F32, &[2, 2]);
    let parts = file.many("SVD", (63, Vec::new()), &[x], 3);
    if !read {
        return file.finish(&parts[1..]);
    }
    let result = file.one("Elemwise", (17, vec![(0, U(16))]), &[parts[0], x]);
    file.finish(&[result])
}

/// An operand.
enum Given {
    /// An input of the network.
    Open(Type, &'static [usize]),
    /// Integers that are known.
    Ints(&'static [i32]),
    /// Zeros.
    Floats(&'static [usize]),
    /// Zeros of a byte each.
    Bytes(Type, &'static [usize]),
    /// A variable by its number.
    Number(u32),
}

use Given::{Bytes, Floats, Ints, Number, Open};

const IMAGE: Given = Open(F32, &[1, 4, 6, 6]);
const ROWS: Given = Open(F32, &[3, 4]);
const WEIGHTS: Given = Floats(&[4, 4, 3, 3]);
const VOLUME: Given = Open(F32, &[1, 4, 6, 6, 6]);
const U8: Type = Type(1, None);
/// `Quantized8Asymm` with zero point 100.
const QU8: Type = Type(11, Some((0.1, 100)));

#[expect(clippy::unnecessary_wraps, reason = "a field of the table: an operand, or none")]
fn conv(fields: Table) -> Option<(u8, Table)> {
    Some((6, fields))
}

/// Parameters that hold structs in slot 0.
#[expect(clippy::unnecessary_wraps, reason = "as above")]
fn structs(kind: u8, size: usize, bytes: Vec<u8>) -> Option<(u8, Table)> {
    Some((kind, vec![(0, Field::Vector(bytes.len() / size, 4, bytes))]))
}

/// A file, the operator that is named, and words of why.
type Row = (Vec<u8>, &'static str, &'static str);

#[expect(clippy::too_many_lines, reason = "it is a table")]
fn rows() -> Vec<Row> {
    let none = || Some((63, Vec::new()));
    let word = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    vec![
        // Any operator.
        (one("Frobnicate", none(), &[IMAGE]), "Frobnicate", "operators of this type are not supported"),
        (
            one("CambriconRuntimeOpr", none(), &[IMAGE]),
            "CambriconRuntimeOpr",
            "machine code for third-party hardware",
        ),
        (one("Elemwise", Some((17, vec![])), &[]), "Elemwise", "0 inputs; 1 to 4 are expected"),
        (one("Convolution", Some((3, vec![])), &[IMAGE]), "Convolution", "1 inputs; 2 to 2 are expected"),
        (
            one("Elemwise", Some((17, vec![])), &[Number(9)]),
            "Elemwise",
            "input 9 is made by no operator before it",
        ),
        (vectors(true), "Elemwise", "it reads result 0 of 'SVD_1' (SVD), which is not computed"),
        (vectors(false), "SVD", "its result 2, an output of the model, is not computed"),
        (one("Elemwise", None, &[IMAGE]), "Elemwise", "parameters are missing"),
        (one("Elemwise", Some((18, vec![])), &[IMAGE]), "Elemwise", "parameters of kind 18; 17 is supported"),
        // Element by element.
        (one("Elemwise", Some((17, vec![(0, U(99))])), &[IMAGE]), "Elemwise", "mode 99"),
        (one("Elemwise", Some((17, vec![(0, U(15))])), &[IMAGE, IMAGE]), "Elemwise", "mode 15"),
        (
            one("Elemwise", Some((17, vec![(0, U(0))])), &[IMAGE, IMAGE]),
            "Elemwise",
            "2 inputs for a function of 1",
        ),
        (
            one("Elemwise", Some((17, vec![(0, U(16))])), &[Open(qs8(0.1), &[2]), Open(qs8(0.2), &[2])]),
            "Elemwise",
            "mode 16 over integers that do not mean the same",
        ),
        (one("ElemwiseMultiType", Some((18, vec![(0, U(3))])), &[IMAGE]), "ElemwiseMultiType", "mode 3"),
        (
            one("ElemwiseMultiType", Some((18, vec![(0, U(6))])), &[IMAGE, IMAGE]),
            "ElemwiseMultiType",
            "an output type is missing",
        ),
        (
            typed("ElemwiseMultiType", Some((18, vec![(0, U(6))])), &[IMAGE, IMAGE], Some(qs8(0.1))),
            "ElemwiseMultiType",
            "mode 6 over these types",
        ),
        (
            one("ElemwiseMultiType", Some((18, vec![(0, U(55))])), &[IMAGE]),
            "ElemwiseMultiType",
            "1 inputs for a function of 2",
        ),
        (
            one("ElemwiseMultiType", Some((18, vec![(0, U(55))])), &[IMAGE, Open(qs8(0.1), &[2])]),
            "ElemwiseMultiType",
            "quantized operands of a function of plain numbers",
        ),
        (
            one("BatchNormV1", Some((11, vec![(0, U(2))])), &[IMAGE, ROWS, ROWS, ROWS, ROWS]),
            "BatchNormV1",
            "training mode",
        ),
        (
            one("BatchNormV1", Some((11, vec![(0, U(1)), (1, U(1))])), &[IMAGE, ROWS, ROWS, ROWS, ROWS]),
            "BatchNormV1",
            "parameter dimensions 1",
        ),
        (
            one("BatchNormV1", Some((11, vec![(0, U(2)), (1, U(1))])), &[IMAGE, ROWS, ROWS, ROWS, ROWS]),
            "BatchNormV1",
            "input 1 of extents (3, 4)",
        ),
        (
            typed("TypeCvtV2", Some((67, dtype(Type(10, None)))), &[IMAGE], None),
            "TypeCvtV2",
            "element type UintB4 is not supported",
        ),
        (
            typed("TypeCvtV2", Some((67, dtype(Type(13, None)))), &[IMAGE], None),
            "TypeCvtV2",
            "element type QuantizedS8 without a scale",
        ),
        (
            typed("TypeCvtV2", Some((67, dtype(qs8(0.0)))), &[IMAGE], None),
            "TypeCvtV2",
            "element type QuantizedS8 with a scale of 0",
        ),
        (
            typed("TypeCvtV2", Some((67, dtype(qs8(f32::NAN)))), &[IMAGE], None),
            "TypeCvtV2",
            "element type QuantizedS8 with a scale of NaN",
        ),
        // Sources.
        (one("SharedDeviceTensor", None, &[]), "SharedDeviceTensor", "0 tensors; 1 is expected"),
        (one("Host2DeviceCopy", none(), &[]), "Host2DeviceCopy", "0 tensors; 1 is expected"),
        (
            one("MultipleDeviceTensorHolder", None, &[]),
            "MultipleDeviceTensorHolder",
            "0 tensors for 1 variables",
        ),
        // Windows.
        (one("ConvBiasForward", conv(vec![(1, U(2))]), &[IMAGE, WEIGHTS]), "ConvBiasForward", "mode 2"),
        (one("ConvBiasForward", conv(vec![(2, U(2))]), &[IMAGE, WEIGHTS]), "ConvBiasForward", "sparsity 2"),
        (one("ConvBiasForward", conv(vec![(3, U(99))]), &[IMAGE, WEIGHTS]), "ConvBiasForward", "format 99"),
        (
            one("ConvBiasForward", conv(vec![(3, U(15))]), &[IMAGE, WEIGHTS]),
            "ConvBiasForward",
            "format CHWN4",
        ),
        (one("ConvBiasForward", conv(vec![(0, U(9))]), &[IMAGE, WEIGHTS]), "ConvBiasForward", "activation 9"),
        (
            one("ConvBiasForward", conv(vec![(6, U(0))]), &[IMAGE, WEIGHTS]),
            "ConvBiasForward",
            "a step or dilation of 0",
        ),
        (
            one("ConvBiasForward", conv(vec![(9, U(0))]), &[IMAGE, WEIGHTS]),
            "ConvBiasForward",
            "a step or dilation of 0",
        ),
        (
            one("ConvBiasForward", conv(vec![]), &[Open(I32, &[1, 4, 6, 6]), WEIGHTS]),
            "ConvBiasForward",
            "inputs of types int32 and float32",
        ),
        (
            one(
                "ConvBiasForward",
                conv(vec![]),
                &[Open(qs8(0.1), &[1, 4, 6, 6]), Bytes(qs8(0.1), &[4, 4, 3, 3])],
            ),
            "ConvBiasForward",
            "quantized inputs without a quantized output type",
        ),
        (
            typed(
                "ConvBiasForward",
                conv(vec![]),
                &[Open(qs8(0.1), &[1, 4, 6, 6]), Bytes(QU8, &[4, 4, 3, 3])],
                Some(qs8(0.1)),
            ),
            "ConvBiasForward",
            "unsigned weights that are not constant or have a zero point other than 128",
        ),
        (
            one("ConvBiasForward", conv(vec![(2, U(1))]), &[IMAGE, WEIGHTS]),
            "ConvBiasForward",
            "weights of extents (4, 4, 3, 3)",
        ),
        (
            one("ConvBiasForward", conv(vec![]), &[IMAGE, Floats(&[4, 3, 3, 3])]),
            "Conv",
            "do not fit the input",
        ),
        (one("Convolution", Some((3, vec![(0, U(7))])), &[IMAGE, WEIGHTS]), "Convolution", "mode 7"),
        (one("PoolingV1", Some((9, vec![(0, U(3))])), &[IMAGE]), "PoolingV1", "mode 3"),
        (one("PoolingV1", Some((9, vec![(3, U(0))])), &[IMAGE]), "PoolingV1", "a window or step of 0"),
        (one("PoolingV1", Some((9, vec![(6, U(0))])), &[IMAGE]), "PoolingV1", "a window or step of 0"),
        (one("PoolingV1", Some((9, vec![(7, U(9))])), &[IMAGE]), "PoolingV1", "format NCHW4_NCHW32"),
        (one("PoolingV1", Some((9, vec![(5, U(9)), (6, U(9))])), &[IMAGE]), "MaxPool", "a window of 9"),
        (
            one("AdaptivePooling", Some((70, vec![(0, U(5))])), &[IMAGE, Ints(&[1, 1])]),
            "AdaptivePooling",
            "mode 5",
        ),
        (
            one("ResizeV2", Some((40, vec![(0, U(3)), (1, U(0))])), &[IMAGE, Ints(&[2, 2])]),
            "ResizeV2",
            "interpolation 3",
        ),
        (
            one(
                "WarpPerspectiveV2",
                Some((13, vec![(0, U(3))])),
                &[IMAGE, Floats(&[1, 3, 3]), Ints(&[2, 2])],
            ),
            "WarpPerspectiveV2",
            "interpolation 3",
        ),
        (
            one(
                "WarpPerspectiveV2",
                Some((13, vec![(1, U(5))])),
                &[IMAGE, Floats(&[1, 3, 3]), Ints(&[2, 2])],
            ),
            "WarpPerspectiveV2",
            "border mode 5",
        ),
        // Products.
        (
            one("MatrixMulV2", Some((20, vec![(3, U(1))])), &[ROWS, ROWS]),
            "MatrixMulV2",
            "a packed matrix format",
        ),
        (
            one("MatrixMulV2", Some((20, vec![])), &[Open(qs8(0.1), &[3, 4]), Ints(&[4, 3])]),
            "MatrixMulV2",
            "operands of types int8 and int32",
        ),
        (one("MatrixMulV2", Some((20, vec![])), &[ROWS, ROWS]), "Gemm", "inner extents 4 and 3"),
        (
            one("BatchedMatrixMulV2", Some((20, vec![(3, U(1))])), &[IMAGE, IMAGE]),
            "BatchedMatrixMulV2",
            "a packed matrix format",
        ),
        // Reductions and order.
        (one("ReduceV2", Some((23, vec![(0, U(6)), (1, U(0))])), &[IMAGE]), "ReduceV2", "mode 6"),
        (
            one("ReduceV2", Some((23, vec![(1, U(0)), (2, U(2))])), &[Open(I32, &[2])]),
            "ReduceV2",
            "data type 2 over int32",
        ),
        (
            one("ReduceV2", Some((23, vec![(1, U(0))])), &[Open(qs8(0.1), &[2])]),
            "ReduceV2",
            "sums of quantized values",
        ),
        (one("ReduceV2", Some((23, vec![])), &[IMAGE]), "ReduceV2", "input 1 is missing"),
        (one("Argsort", Some((26, vec![(0, U(2))])), &[ROWS]), "Argsort", "order 2"),
        (one("Argsort", Some((26, vec![])), &[IMAGE]), "Argsort", "an operand of 4 axes; 2 are expected"),
        (one("TopK", Some((44, vec![(0, U(3))])), &[ROWS, Ints(&[1])]), "TopK", "mode 3"),
        (
            one("TopK", Some((44, vec![])), &[IMAGE, Ints(&[1])]),
            "TopK",
            "an operand of 4 axes; 2 are expected",
        ),
        (one("TopK", Some((44, vec![])), &[ROWS, Ints(&[0])]), "TopK", "no elements"),
        (
            one("TopK", Some((44, vec![])), &[ROWS, Open(I32, &[1])]),
            "TopK",
            "a number of elements that depends on the network's data",
        ),
        (one("CondTake", Some((25, vec![(0, U(9))])), &[ROWS, ROWS]), "CondTake", "mode 9"),
        // Extents.
        (
            one("ReshapeV1", Some((54, vec![(0, U(5))])), &[IMAGE, Ints(&[4, 36])]),
            "ReshapeV1",
            "axis 5 of a shape of 2",
        ),
        (one("ReshapeV1", Some((54, vec![])), &[IMAGE, Ints(&[4, 35])]), "Reshape", "cannot become [4, 35]"),
        (
            one("Broadcast", Some((54, vec![(0, U(0))])), &[ROWS, Ints(&[2, 3, 4])]),
            "Broadcast",
            "a broadcast with an axis",
        ),
        (
            one("Concat", Some((2, vec![])), &[Open(qs8(0.1), &[2]), Open(qs8(0.2), &[2])]),
            "Concat",
            "inputs whose integers do not mean the same",
        ),
        (
            one("Padding", Some((82, vec![])), &[Open(qs8(0.1), &[2])]),
            "Padding",
            "a border of quantized values",
        ),
        (one("Padding", Some((82, vec![(2, U(1))])), &[ROWS]), "Padding", "a border of axis 2 of 2"),
        (one("Padding", Some((82, vec![(9, U(1))])), &[ROWS]), "Padding", "a border of axis 2 of 2"),
        (one("Padding", Some((82, vec![(15, U(3))])), &[ROWS]), "Padding", "mode 3"),
        (one("Dimshuffle", structs(64, 4, word(&[1, 1])), &[ROWS]), "Dimshuffle", "pattern [1, 1] of 2 axes"),
        (one("Dimshuffle", structs(64, 4, word(&[0, 2])), &[ROWS]), "Dimshuffle", "pattern [0, 2] of 2 axes"),
        (
            one("Dimshuffle", structs(64, 4, word(&[0, -2])), &[ROWS]),
            "Dimshuffle",
            "pattern [0, -2] of 2 axes",
        ),
        (one("AxisAddRemove", structs(65, 8, word(&[2, 0])), &[ROWS]), "AxisAddRemove", "method 2"),
        (
            one("AxisAddRemove", structs(65, 8, word(&[1, 0])), &[Open(F32, &[3])]),
            "AxisAddRemove",
            "the only axis cannot go unless its extent is 1",
        ),
        (one("AxisAddRemove", structs(65, 8, word(&[1, 0])), &[ROWS]), "Squeeze", "that is not 1 cannot go"),
        // Axis, and whether begin, end, step and index are operands.
        (
            one("Subtensor", structs(66, 5, vec![0, 1, 0, 0, 0]), &[ROWS]),
            "Subtensor",
            "fewer operands than the description",
        ),
        (
            one("Subtensor", structs(66, 5, vec![0, 0, 0, 0, 0]), &[ROWS, Ints(&[1])]),
            "Subtensor",
            "more operands than the description has",
        ),
        (
            one("Subtensor", structs(66, 5, vec![2, 1, 0, 0, 0]), &[ROWS, Ints(&[1])]),
            "Subtensor",
            "axis 2 of 2",
        ),
        (
            one("Subtensor", structs(66, 5, vec![0, 0, 0, 1, 0]), &[ROWS, Ints(&[0])]),
            "Subtensor",
            "a step that is 0 or not constant",
        ),
        (
            one("IndexingMultiAxisVec", structs(66, 5, vec![0, 1, 0, 0, 1]), &[ROWS, Ints(&[1]), Ints(&[1])]),
            "IndexingMultiAxisVec",
            "an axis with a range and indices",
        ),
        (
            one("IndexingMultiAxisVec", structs(66, 5, vec![3, 0, 0, 0, 1]), &[ROWS, Ints(&[1])]),
            "IndexingMultiAxisVec",
            "axis 3 of 2",
        ),
        (
            one("IndexingMultiAxisVec", structs(66, 5, vec![0, 1, 0, 0, 0]), &[ROWS, Ints(&[1])]),
            "IndexingMultiAxisVec",
            "no indices",
        ),
        (one("RelayoutFormatV1", Some((45, vec![(0, U(99))])), &[IMAGE]), "RelayoutFormatV1", "99"),
        (
            one("Concat", Some((2, vec![])), &[Open(qs32(0.1), &[2]), Open(F32, &[2])]),
            "Concat",
            "inputs whose integers do not mean the same",
        ),
    ]
}

/// Operators that are made of others, and what they say once they see their operands.
#[expect(clippy::too_many_lines, reason = "it is a table")]
fn composite_rows() -> Vec<Row> {
    let color = |mode, shape| one("CvtColor", Some((37, vec![(0, U(mode))])), &[Open(U8, shape)]);
    let remap = |inputs: &[Given]| one("RemapV1", Some((68, vec![(2, U(0))])), inputs);
    let align = |fields: Table, inputs: &[Given]| one("ROIAlignV1", Some((48, fields)), inputs);
    let window = |kind: &str, fields: Table, inputs: &[Given]| one(kind, Some((3, fields)), inputs);
    let volumes =
        |kind: &str, fields: Table| one(kind, Some((41, fields)), &[VOLUME, Floats(&[4, 4, 2, 2, 2])]);
    let boxes = || Floats(&[2, 5]);
    vec![
        (color(32, &[1, 6, 6, 3]), "CvtColor", "mode 32"),
        (color(u32::MAX, &[1, 6, 6, 3]), "CvtColor", "mode 4294967295"),
        (
            one("CvtColor", Some((37, vec![(0, U(4))])), &[Open(F32, &[1, 6, 6, 4])]),
            "CvtColor",
            "mode 4 of float32",
        ),
        (
            one("CvtColor", Some((37, vec![(0, U(9))])), &[Open(F32, &[1, 6, 6, 3])]),
            "CvtColor",
            "mode 9 of float32",
        ),
        (color(0, &[1, 6, 6, 4]), "CvtColor", "4 axes are expected, the last of 3"),
        (color(0, &[6, 6, 3]), "CvtColor", "4 axes are expected, the last of 3"),
        (color(4, &[1, 6, 6, 3]), "CvtColor", "4 axes are expected, the last of 4"),
        (color(3, &[1, 6, 6, 3]), "CvtColor", "4 axes are expected, the last of 1"),
        (color(10, &[1, 7, 6, 1]), "CvtColor", "7 rows; a multiple of 3 is expected"),
        (color(11, &[1, 7, 6, 1]), "CvtColor", "rows are not a multiple of 3, or columns are odd"),
        (color(11, &[1, 6, 5, 1]), "CvtColor", "rows are not a multiple of 3, or columns are odd"),
        (
            one("WarpAffineV2", Some((38, vec![(3, U(0))])), &[IMAGE, Floats(&[1, 3, 3]), Ints(&[2, 2])]),
            "WarpAffineV2",
            "matrices of extents (1, 3, 3)",
        ),
        (remap(&[IMAGE, Floats(&[1, 2, 2, 3])]), "RemapV1", "a map of extents (1, 2, 2, 3)"),
        (remap(&[IMAGE, Floats(&[2, 2, 2, 2])]), "RemapV1", "and a map (2, 2, 2, 2)"),
        (remap(&[ROWS, Floats(&[3, 2, 2, 2])]), "RemapV1", "and a map (3, 2, 2, 2)"),
        (align(vec![(0, U(2))], &[IMAGE, boxes()]), "ROIAlignV1", "mode 2"),
        (align(vec![(1, U(1))], &[IMAGE, boxes()]), "ROIAlignV1", "images that are not in planes"),
        (align(vec![(4, U(0))], &[IMAGE, boxes()]), "ROIAlignV1", "a grid of 0 cells or samples"),
        (align(vec![(7, U(0))], &[IMAGE, boxes()]), "ROIAlignV1", "a grid of 0 cells or samples"),
        (align(vec![], &[IMAGE, Floats(&[2, 4])]), "ROIAlignV1", "boxes of extents (2, 4)"),
        (align(vec![], &[ROWS, boxes()]), "ROIAlignV1", "of type float32; f32 is expected"),
        (
            window("DeformableConvForward", vec![(0, U(1))], &[IMAGE, WEIGHTS, IMAGE, IMAGE]),
            "DeformableConvForward",
            "a window the other way round, or images that are not in planes",
        ),
        (
            window("DeformableConvForward", vec![(3, U(0))], &[IMAGE, WEIGHTS, IMAGE, IMAGE]),
            "DeformableConvForward",
            "a step or dilation of 0",
        ),
        (
            window("DeformableConvForward", vec![(6, U(0))], &[IMAGE, WEIGHTS, IMAGE, IMAGE]),
            "DeformableConvForward",
            "a step or dilation of 0",
        ),
        (
            window("DeformableConvForward", vec![], &[IMAGE, ROWS, IMAGE, IMAGE]),
            "DeformableConvForward",
            "weights (3, 4) and offsets",
        ),
        (
            window("DeformableConvForward", vec![], &[IMAGE, WEIGHTS, IMAGE, IMAGE]),
            "DeformableConvForward",
            "weights (4, 4, 3, 3), offsets (1, 4, 6, 6) and factors",
        ),
        (
            volumes("Convolution3D", vec![(0, U(1))]),
            "Convolution3D",
            "a window whose taps are the other way round",
        ),
        (volumes("Convolution3D", vec![(10, U(2))]), "Convolution3D", "sparsity 2"),
        (volumes("Convolution3D", vec![(12, U(1))]), "Convolution3D", "volumes whose channels come last"),
        (
            volumes("Convolution3DBackwardData", vec![(12, U(1))]),
            "Convolution3DBackwardData",
            "volumes whose channels come last",
        ),
        (
            window("ConvolutionBackwardData", vec![(0, U(1))], &[WEIGHTS, IMAGE]),
            "ConvolutionBackwardData",
            "a window whose taps are the other way round",
        ),
        (
            window(
                "ConvolutionBackwardData",
                vec![],
                &[Bytes(qs8(0.1), &[4, 4, 3, 3]), Open(qs8(0.1), &[1, 4, 6, 6])],
            ),
            "ConvolutionBackwardData",
            "quantized inputs without an output type",
        ),
        (
            typed(
                "ConvolutionBackwardData",
                Some((3, vec![])),
                &[Bytes(qs8(0.1), &[4, 4, 3, 3]), Open(qs8(0.1), &[1, 4, 6, 6])],
                Some(F32),
            ),
            "ConvolutionBackwardData",
            "quantized inputs without a quantized output type",
        ),
        (
            typed(
                "ConvolutionBackwardData",
                Some((3, vec![])),
                &[Bytes(qs8(0.1), &[4, 4, 3, 3]), Open(QU8, &[1, 4, 6, 6])],
                Some(qs8(0.1)),
            ),
            "ConvolutionBackwardData",
            "quantized inputs whose 0 is not the integer 0",
        ),
        (
            window("LocalV2", vec![(8, U(1))], &[IMAGE, WEIGHTS]),
            "LocalV2",
            "a window the other way round, or images that are not in planes",
        ),
        (window("LocalV2", vec![], &[IMAGE, WEIGHTS]), "LocalV2", "weights of extents (4, 4, 3, 3)"),
        (
            window("LocalV2", vec![], &[IMAGE, Floats(&[4, 3, 4, 3, 3, 5])]),
            "LocalV2",
            "weights (4, 3, 4, 3, 3, 5) over input (1, 4, 6, 6)",
        ),
        (
            window("LocalV2", vec![(3, U(0))], &[IMAGE, Floats(&[4, 4, 4, 3, 3, 5])]),
            "LocalV2",
            "a window of 3 × 3, or a step of 0",
        ),
        (
            one("LRN", Some((10, vec![(0, U(4))])), &[IMAGE]),
            "LRN",
            "sums of 4 channels; odd numbers up to 255",
        ),
        (one("LRN", Some((10, vec![(0, U(257))])), &[IMAGE]), "LRN", "sums of 257 channels"),
        (one("LRN", Some((10, vec![])), &[ROWS]), "LRN", "input (3, 4); 4 axes are expected"),
        (
            one("Diag", Some((91, vec![])), &[Open(F32, &[2, 3, 4])]),
            "Diag",
            "input (2, 3, 4) is neither a vector nor a matrix",
        ),
        (
            one("ReshapeV1", Some((54, vec![(0, U(0))])), &[IMAGE, Open(I32, &[2, 2])]),
            "ReshapeV1",
            "the shape operand does not have one axis",
        ),
        (
            one("RNNCellForward", Some((87, vec![(0, U(3))])), &[ROWS, ROWS, ROWS, ROWS, ROWS, ROWS]),
            "RNNCellForward",
            "nonlinearity 3",
        ),
    ]
}

#[test]
fn each_wrong_operator_is_named() {
    let mut wrong = Vec::new();
    for (index, (file, op, words)) in rows().into_iter().chain(composite_rows()).enumerate() {
        match mge::read(file, &mge::ReadOptions::default()) {
            Ok(_) => wrong.push(format!("{index}, {op}: '{words}' is read")),
            Err(error) => {
                let named = match &error {
                    Error::Unsupported { op: found, .. } | Error::Shape { op: found, .. } => found == op,
                    _ => false,
                };
                let text = error.to_string();
                if !named || !text.contains(words) {
                    wrong.push(format!("{index}, {op}: '{words}', but: {text}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows:\n{}", wrong.len(), wrong.join("\n"));
}

/// A small file that is right, and how many bytes it has.
fn small() -> Vec<u8> {
    one("Elemwise", Some((17, vec![])), &[Open(F32, &[2])])
}

#[test]
fn files_that_are_no_model_are_malformed() {
    let read = |bytes: Vec<u8>, compressed: bool| mge::read(bytes, &mge::ReadOptions { compressed });
    let at = |position: usize, bytes: &[u8]| {
        let mut file = small();
        file[position..position + bytes.len()].copy_from_slice(bytes);
        file
    };
    read(small(), false).expect("it is right");
    let constant = |data: &[u8]| {
        let mut file = File::default();
        let weights = file.constant(F32, &[2], data.to_vec());
        file.finish(&[weights])
    };
    read(constant(&[0; 8]), false).expect("it is right");
    let one = 1.0_f32.to_le_bytes();
    let packed = [&[1][..], &one, &one, &[0, 0]].concat();
    read(constant(&packed), true).expect("it is right");
    let mut outputless = File::default();
    outputless.floats(&[1], &[1.0]);
    let mut missing = File::default();
    missing.floats(&[1], &[1.0]);
    let cut = small()[..40].to_vec();
    let rows: Vec<(Vec<u8>, bool, &str)> = vec![
        (Vec::new(), false, "begin neither with a model of version 1 nor 2"),
        (b"nonsense that is long enough".to_vec(), false, "begin neither with a model of version 1 nor 2"),
        (at(8, b"mgv3"), false, "begin neither with a model of version 1 nor 2"),
        ([&b"MGBC"[..], &[0; 8]].concat(), false, "the part with the operators is damaged or cut off"),
        (at(0, &u32::MAX.to_le_bytes()), false, "the file is cut off: it says 4294967295 bytes"),
        (cut, false, "the file is cut off"),
        (at(4, &0_u32.to_le_bytes()), false, "the reference at 4 points to itself"),
        (at(4, &u32::MAX.to_le_bytes()), false, "outside"),
        (outputless.finish(&[]), false, "the model has no outputs"),
        (missing.finish(&[7]), false, "output 7 is made by no operator"),
        (constant(&[0; 7]), false, "7 bytes for float32 (2)"),
        (constant(&[0; 9]), false, "a compressed model needs the option that says so"),
        (constant(&[]), false, "its values are not in the file"),
        (constant(&[9; 9]), true, "Unexpected compression method 9"),
        (constant(&[1; 9]), true, "9 compressed bytes for 2 values of 1 bytes each"),
        (constant(&[2; 12]), true, "12 compressed bytes for 2 values of 2 bytes each"),
    ];
    for (index, (bytes, compressed, words)) in rows.into_iter().enumerate() {
        let error = read(bytes, compressed).expect_err(words);
        assert!(matches!(error, Error::Malformed { format: "MGE (MegEngine)", .. }), "{index}: {error}");
        assert!(error.to_string().contains(words), "{index}: '{error}' does not say '{words}'");
    }
    let packed: &[(&[u8], &str)] = &[
        (b"", "not a packed model"),
        (b"packed_mode", "not a packed model"),
        (b"packed_modelxxxx", "packed model: "),
        (b"packed_model\0\0\0\0", "packed model: the reference at 0 points to itself"),
    ];
    for (bytes, words) in packed {
        let error = mge::packed::read(bytes.to_vec()).expect_err(words);
        assert!(matches!(error, Error::Malformed { .. }) && error.to_string().contains(words), "{error}");
    }
}
