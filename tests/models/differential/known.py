"""Differences that have a reason, and who is right: by operator and what is said of it.

`DEVIATIONS` stay: the other side departs from the standard or rounds otherwise. `DEFECTS` are Triune's own, to be mended; a line
goes when its mending comes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from judging import Outcome

OLD_BINARY = r"(Add|Sub|Mul|Div|And|Or|Xor|Equal|Less|Greater|Pow)-[1-6]\b"
SOFTMAX = r"(Softmax|LogSoftmax|Hardmax)-(1|11)\b"


class Known(NamedTuple):
    """A group of cases."""

    name: str
    """A pattern of the case's name, from its beginning."""
    judge: str
    reason: str
    """A pattern of what is said of the case."""
    why: str


ORT, REFERENCE = "ONNX Runtime", "reference"
DEVIATIONS = [
    Known(r"(LayerNormalization|GRU|LSTM|RNN)-", ORT, "ended the process", "ONNX Runtime itself dies: bfloat16, no steps"),
    Known(r"com.microsoft.(DynamicQuantizeLSTM|GroupQueryAttention|QAttention|QLinearAveragePool)-", ORT, "ended the process",
          "ONNX Runtime itself dies: no batch, no extent"),
    Known(r"com.microsoft.(FastGelu|QuickGelu)-.*double", ORT, "other values", "ONNX Runtime computes float64 in float32"),
    Known(r"(Cast|CastLike|Pad|Identity)-", ORT, "other values", "ONNX Runtime rounds to 2 and 4 bits, the standard cuts"),
    Known(r"MaxUnpool-", ORT, "as the reference", "ONNX Runtime takes places as those of the inferred extents"),
    Known(r"(ReduceMax|ReduceMin|Max|Min|MaxPool|Relu|LogSoftmax|Softmax|Sign)-", ORT, "NaN.*as the reference",
          "ONNX Runtime drops a NaN"),
    Known(SOFTMAX, ORT, "NaN", "ONNX Runtime drops a NaN"),
    Known(r"Cast-", ORT, "NaN.*as the reference", "ONNX Runtime makes powers of two of infinities"),
    Known(r"(Cast|CastLike)-", REFERENCE, "other values", "the reference writes numbers in numpy's way"),
    Known(r"Softplus-", ORT, "infinity.*as the reference", "ONNX Runtime computes exponentials of float16 in float16"),
    Known(r"(Blackman|Hamming|Hann)Window-", ORT, "other values", "ONNX Runtime computes float64 in float32, or divides by 0"),
    Known(r"com.microsoft.QLinearAveragePool-", ORT, "other values", "SAME, strides over windows: ONNX Runtime cuts ends off"),
    Known(r"MaxPool-.*int8", ORT, "other values", "SAME with strides over windows: ONNX Runtime cuts bytes, and refuses reals"),
    Known(r"QLinearMatMul-", REFERENCE, "steps apart", "a NaN of float8 has no integer"),
    Known(r"LogSoftmax-", REFERENCE, "infinity", "the reference takes logarithms of what has become 0"),
    Known(r"ReduceProd-", REFERENCE, "other values", "the reference rounds products of bfloat16 one by one"),
    Known(r"Pow-", REFERENCE, "other values", "powers beyond the integers' range"),
    Known(r"Attention-", REFERENCE, "other values", "the reference computes parts in float32"),
    Known(r"(Blackman|Hamming|Hann)Window-|Shrink-|DFT-|STFT-|Gelu-|MelWeightMatrix-", ORT, "other values.*as the reference",
          "ONNX Runtime computes float64 in float32"),
    Known(r"Shrink-.*int", "", "other values", "reals beyond the type: x86 makes the least integer of them, Triune the nearest"),
    Known(r"Clip-1[123]\b", ORT, "as the reference", "ONNX Runtime cuts infinities where no limit is given"),
    Known(r"Attention-", ORT, "other values.*as the reference", "ONNX Runtime takes roots of scales in float32"),
    Known(r"ConvTranspose-", REFERENCE, "other values.*under SAME",
          "half of a padding below 0: the reference's is rounded down, Triune's towards 0"),
    Known(r"Conv-", ORT, "NaN.*dilated.*as the reference", "ONNX Runtime's sums of dilated windows meet both infinities"),
    Known(r"Einsum-", ORT, "as the reference", "ONNX Runtime loses axes that no term of a result has"),
    Known(r"Gather-.*string", ORT, "as the reference", "ONNX Runtime takes one string of each part"),
    Known(r"Slice-", ORT, "other extents", "ONNX Runtime takes the largest integer for the end backwards, too"),
    Known(r"Slice-", ORT, "as the reference", "ONNX Runtime takes an element before the first one backwards"),
    Known(r"(com.microsoft.Nhwc)?(MaxPool|AveragePool|LpPool)-", ORT, "other extents",
          "ONNX Runtime's SAME and VALID leave dilations out"),
    Known(r"(MaxPool|AveragePool|LpPool)-", REFERENCE, "other", "the reference's SAME and VALID leave dilations out"),
    Known(r"ConvTranspose-", ORT, "other extents", "ONNX Runtime has no paddings below 0, which SAME comes to"),
    Known(r"(ReduceL1|ReduceSumSquare|ReduceSum|ReduceProd|ReduceMean)-.*int", ORT, "other values",
          "sums beyond their type: ONNX Runtime ends at its limits, Triune goes round"),
    Known(r"SplitToSequence-", ORT, "as the reference", "ONNX Runtime minds keepdims beside split"),
    Known(r"(Resize|Upsample)-", ORT, "as the reference", "ONNX Runtime's align_corners of extents that factors do not meet"),
    Known(r"AffineGrid-", ORT, "NaN", "ONNX Runtime divides by 0 where an extent of 1 has aligned corners"),
    Known(r"AffineGrid-", ORT, "other values", "ONNX Runtime has the one place of an extent of 1 at -1, the reference at 0"),
    Known(r"AffineGrid-", REFERENCE, "type", "the reference computes in float32 or float64"),
    Known(r"GridSample-.*(int|bool)", REFERENCE, "", "the reference computes on whole numbers in their own type"),
    Known(r"GridSample-", REFERENCE, "",
          "the reference rounds places of float16 and bfloat16 between steps, and brings cubic ones in before their neighbours"),
    Known(r"Loop-", REFERENCE, "rank|extents|values", "the reference joins what a loop collects instead of stacking it"),
    Known(r"Reduce\w+-", REFERENCE, "type", "the reference widens sums of 8 to 32 bits"),
    Known(r"(GRU|LSTM|RNN)-", REFERENCE, "", "the reference knows neither directions, functions nor lengths"),
    Known(SOFTMAX, REFERENCE, "", "the reference takes one axis where version 1 and 11 take all from it on"),
    Known(OLD_BINARY, REFERENCE, "", "the reference minds no axis of old broadcasts"),
    Known(r"Gemm-[16]\b", REFERENCE, "", "the reference of old Gemm drops C, or computes in float32"),
    Known(r"Gemm-", REFERENCE, "type", "the reference computes in float32"),
    Known(r"(Erf|Gelu|HardSwish)-", REFERENCE, "other values", "the reference's constants and approximation are float32's"),
    Known(r"Gelu-", ORT, "other values", "its body has a constant of float32"),
    Known(r"Selu-1\b", REFERENCE, "other values", "version 1 has constants of its own"),
    Known(r"LRN-", REFERENCE, "", "the reference computes the middle channel of the batch alone"),
    Known(r"MelWeightMatrix-|(Blackman|Hamming|Hann)Window-", REFERENCE, "", "the reference divides by 0, or in 16 bits"),
    Known(r"(Conv|ConvTranspose|PRelu|LeakyRelu)-", REFERENCE, "NaN|infinity", "the reference multiplies zeros with infinities"),
    Known(r"Unique-", REFERENCE, "", "the reference takes elements of another axis where results are not sorted"),
    Known(r"LpNormalization-", REFERENCE, "", "the reference sums signed numbers"),
    Known(r"Pad-.*string", REFERENCE, "values", "the reference fills strings with the word 0"),
    Known(r"Pad-", REFERENCE, "values, of strings", "the reference fills strings with the word 0"),
    Known(r"PRelu-[16]\b", REFERENCE, "", "the reference takes slopes of channels for those of the last axis"),
    Known(r"Pad-.*e8m0", REFERENCE, "", "float8e8m0 has no 0"),
    Known(r"(QuantizeLinear|DequantizeLinear)-.*", REFERENCE, "values", "the reference divides in 16 bits"),
    Known(r"(InstanceNormalization|Unique)-", ORT, "ended the process", "ONNX Runtime itself dies where there are no elements"),
    Known(r"ReduceLogSum(Exp)?-.*int", ORT, "other values", "ONNX Runtime computes exponentials and logarithms in integers"),
    Known(r"GlobalMaxPool-", REFERENCE, "rank", "the reference adds an axis of one element in three dimensions"),
    Known(r"Scan-", ORT, "", "ONNX Runtime gives zeros where there are no steps, the standard the first state"),
    Known(r"Dropout-", ORT, "as the reference", "ONNX Runtime gives the ratio for the operand where both are float8"),
    Known(r"(Hamming|Hann|Blackman)Window-", "", "steps apart|NaN", "the others divide 0 by 0 for a window of one element"),
    Known(r"Compress-", ORT, "other extents", "the standard has no condition that is longer than its axis"),
    Known(r"Pow-.*int", REFERENCE, "other values", "reals beyond the type: the reference makes the least integer of them"),
    Known(r"(Cast|CastLike)-.*string", REFERENCE, "other values", "the reference writes truth values as Python's words"),
    Known(r"Col2Im-", ORT, "as the reference", "ONNX Runtime misplaces blocks of more than two axes"),
    Known(r"MatMulInteger-", ORT, "as the reference", "ONNX Runtime leaves sums of no products as they lay"),
    Known(r"BatchNormalization-", ORT, "NaN.*of nothing", "means of no elements: ONNX Runtime's are NaN, Triune's 0"),
    Known(r"(BatchNormalization|ReduceL2|ReduceSumSquare|ReduceMean|ReduceSum)-", ORT, "of huge numbers",
          "sums whose numbers take each other away, in another order"),
    Known(r"(Conv|ConvTranspose|Gemm|MatMul)-.*(double|float)", REFERENCE, "other values.*of huge numbers",
          "sums whose numbers take each other away, in another order"),
    Known(r"ConvTranspose-", REFERENCE, "other values.*in groups", "the reference adds the first bias to all groups"),
    Known(r"Einsum-", ORT, "ended the process", "ONNX Runtime itself dies where there are no elements"),
    Known(r"LayerNormalization-", REFERENCE, "type float32 instead of bfloat16", "the reference's means have the operand's type"),
    Known(r"LayerNormalization-", REFERENCE, "NaN.*of nothing", "means of no elements: the reference's are NaN, Triune's 0"),
    Known(r"ReduceMean-.*float16", REFERENCE, "NaN on one side$", "means of a constant without elements: NaN"),
    Known(r"ReduceMean-", REFERENCE, "of nothing", "means of no elements: NaN, or what an integer makes of it"),
    Known(r"Pow-", ORT, "other values.*at limits", "powers beyond integers, or NaN: x86 makes the least of them"),
    Known(r"(Conv|ConvTranspose|MatMul)-", ORT, "of huge numbers",
          "sums whose numbers take each other away, in another order"),
    Known(r"Conv-", ORT, "NaN on one side.*not finite on borders",
          "borders are zeros in ONNX Runtime, which make NaNs of such weights; here some are left out of sums"),
    Known(r"Gather-", ORT, "of strings; as the reference", "ONNX Runtime takes one string of each part"),
    Known(r"(MaxPool|AveragePool|LpPool)-", ORT, "other values.*dilated", "ONNX Runtime's SAME and VALID leave dilations out"),
    Known(r"QuantizeLinear-", ORT, "other values.*of float16", "scales of float16: ONNX Runtime divides in 16 bits"),
    Known(r"GroupNormalization-.*float16", REFERENCE, "NaN", "the reference's variances in 16 bits may be below 0"),
    Known(r"HardSwish-.*double", ORT, "other values", "the others' constants are float32's"),
    Known(r"(GRU|LSTM|RNN)-", ORT, "of nothing", "no steps: ONNX Runtime's last states are 0, Triune's the first ones"),
    Known(r"ReduceL1-.*float16", REFERENCE, "other values", "the reference adds up in 16 bits"),
    Known(r"BatchNormalization-", ORT, "as the reference", "ONNX Runtime rounds factors and addends of its training mode first"),
]  # fmt: skip
DEFECTS = [
    Known(
        r"Attention-",
        ORT,
        "other values",
        "float64 scales in float32; masks of whole numbers beside is_causal in float16",
    ),
    Known(r"(RMSNormalization|GroupNormalization|LayerNormalization)-", "", "other values", "float64 parts in float32"),
    Known(r"(DeformConv|GridSample|Resize|Upsample)-.*double", "", "other values", "float64 places in float32"),
    Known(r"(DeformConv|GroupNormalization|Resize)-", ORT, "other values", "float64 places in float32"),
    Known(r"Resize-", REFERENCE, "other values", "float64 places in float32"),
    Known(r"ConvTranspose-", ORT, "NaN|infinity", "zeros between elements meet infinities"),
    Known(r"QLinearMatMul-", ORT, "of nothing.*as the reference", "sums of nothing: ONNX Runtime writes none of them"),
    Known(
        r"SoftmaxCrossEntropyLoss-",
        REFERENCE,
        "NaN.*of nothing",
        "means of no elements: the reference's are NaN, Triune's 0",
    ),
    Known(r"InstanceNormalization-.*float16", REFERENCE, "other values", "the reference's variances have 16 bits"),
    Known(
        r"(Resize|Upsample)-",
        REFERENCE,
        "steps apart",
        "the reference has results of 1.5 elements, in pytorch_half_pixel",
    ),
    Known(r"com.microsoft.QGemm-", ORT, "other values", "what stays real is summed as reals, with their roundings"),
]


def explanation(name: str, result: Outcome) -> str | None:
    """Return why a case is as it is, None if nothing is known of it."""
    for prefix, table in (("", DEVIATIONS), ("defect: ", DEFECTS)):
        for known in table:
            if known.judge not in ("", result.judge) or not re.match(known.name, name):
                continue
            if re.search(known.reason, result.reason):
                return prefix + known.why
    return None
