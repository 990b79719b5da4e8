"""Float models become integer ones that give the same answers, and models are compared layer by layer.

The public names are `triune.quantize` and `triune.compare`; here is what they give. Needs the extra ``onnx``.
"""

from triune._detections import Matches
from triune.quantization._agreement import Agreement
from triune.quantization._check import OutputCheck
from triune.quantization._compare import Comparison, Difference, LayerDifference, OutputDifference, compare
from triune.quantization._options import QuantizationOptions, QuantizationResult
from triune.quantization._quantize import quantize

__all__ = [
    "Agreement",
    "Comparison",
    "Difference",
    "LayerDifference",
    "Matches",
    "OutputCheck",
    "OutputDifference",
    "QuantizationOptions",
    "QuantizationResult",
    "compare",
    "quantize",
]
