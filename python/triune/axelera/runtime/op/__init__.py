"""`axelera.runtime.op`: operators that are put together to pipelines, as the vendor's pipeline builder documents them.

What there is: sequences and branches, preparing of pictures, compiled models and ONNX models, decoding of YOLO's boxes and
keypoints, suppression, the way back to the picture, and objects of results. Trackers, masks, rotated boxes and ``.axe`` files
are not: their names raise AttributeError. A pipeline runs in the calling thread; `optimized` changes nothing.
"""

from __future__ import annotations

from triune.axelera.runtime.op._decoding import DecodeDetections, DecodePose, Nms, ToImageSpace, TopK
from triune.axelera.runtime.op._models import Load, OnnxModel
from triune.axelera.runtime.op._operators import (
    FrameContext,
    Identity,
    Itemgetter,
    Operator,
    Pack,
    Par,
    Seq,
    frame_context,
)
from triune.axelera.runtime.op._pictures import CenterCrop, ColorConvert, Letterbox, Normalize, Resize, ToTensor
from triune.axelera.runtime.op._results import (
    AxClassification,
    AxDetection,
    AxPose,
    BBox,
    Classification,
    CocoClasses,
    DetectedObject,
    Filter,
    Keypoint,
    PoseObject,
)

__all__ = [
    "AxClassification",
    "AxDetection",
    "AxPose",
    "BBox",
    "CenterCrop",
    "Classification",
    "CocoClasses",
    "ColorConvert",
    "DecodeDetections",
    "DecodePose",
    "DetectedObject",
    "Filter",
    "FrameContext",
    "Identity",
    "Itemgetter",
    "Keypoint",
    "Letterbox",
    "Load",
    "Nms",
    "Normalize",
    "OnnxModel",
    "Operator",
    "Pack",
    "Par",
    "PoseObject",
    "Resize",
    "Seq",
    "ToImageSpace",
    "ToTensor",
    "TopK",
    "ax_classification",
    "ax_detection",
    "ax_pose",
    "axclassification",
    "axdetection",
    "axpose",
    "center_crop",
    "centercrop",
    "color_convert",
    "colorconvert",
    "decode_detections",
    "decode_pose",
    "filter",
    "frame_context",
    "identity",
    "itemgetter",
    "letterbox",
    "load",
    "nms",
    "normalize",
    "onnx_model",
    "pack",
    "par",
    "resize",
    "seq",
    "to_image_space",
    "to_tensor",
    "top_k",
    "topk",
    "totensor",
]

seq, par, pack, itemgetter, identity = Seq, Par, Pack, Itemgetter, Identity
color_convert = colorconvert = ColorConvert
resize, letterbox, normalize = Resize, Letterbox, Normalize
center_crop = centercrop = CenterCrop
to_tensor = totensor = ToTensor
load, onnx_model = Load, OnnxModel
decode_detections, decode_pose, nms, to_image_space = DecodeDetections, DecodePose, Nms, ToImageSpace
top_k = topk = TopK
ax_detection = axdetection = AxDetection
ax_pose = axpose = AxPose
ax_classification = axclassification = AxClassification
filter = Filter
