"""`axelera.types`: the records, enumerations and base classes that the vendor's programs and model files share.

Names, fields, defaults and messages are those that the vendor's public programs and tests use; what none of them shows is not
there. Nothing here needs a card.
"""

from __future__ import annotations

from triune.axelera.types._interfaces import (
    BaseEvalSample,
    DataAdapter,
    DataLoader,
    EvalResult,
    Evaluator,
    FrameInput,
    Model,
    ONNXModel,
    SharedParameterError,
)
from triune.axelera.types._records import Manifest, ModelInfo, OutputInfo
from triune.axelera.types.enums import (
    BoxFormat,
    ColorFormat,
    ImageReader,
    ModelType,
    ResizeMode,
    TaskCategory,
    TensorLayout,
)
from triune.axelera.types.img import Image

from . import enums, img

__all__ = [
    "BaseEvalSample",
    "BoxFormat",
    "ColorFormat",
    "DataAdapter",
    "DataLoader",
    "EvalResult",
    "Evaluator",
    "FrameInput",
    "Image",
    "ImageReader",
    "Manifest",
    "Model",
    "ModelInfo",
    "ModelType",
    "ONNXModel",
    "OutputInfo",
    "ResizeMode",
    "SharedParameterError",
    "TaskCategory",
    "TensorLayout",
    "enums",
    "img",
]
