"""`axelera.runtime.op`: operators that are put together to pipelines, as the vendor's pipeline builder documents them.

What there is: sequences, branches and loops over what was found; preparing of pictures; compiled models and ONNX models;
decoding of YOLO's boxes, turned boxes, keypoints and masks; suppression; the way back to the picture; objects; trackers.
A pipeline runs in the calling thread; `optimized` changes nothing. ``.axe`` files are neither read nor written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from triune.axelera.runtime.op._classes import COCO_KEYPOINT_NAMES, CocoClasses, DotaClasses, load_classes
from triune.axelera.runtime.op._decoding import (
    DecodeDetections,
    DecodeObb,
    DecodePose,
    Softmax,
    ToImageSpace,
    Top1,
    TopK,
)
from triune.axelera.runtime.op._masks import DecodeSegmentation, DecodeSemanticSegmentation, ProtoToMask
from triune.axelera.runtime.op._models import Load, OnnxModel
from triune.axelera.runtime.op._objects import (
    BBox,
    Classification,
    CoordFormat,
    CoordSpace,
    DepthMap,
    DetectedObject,
    Keypoint,
    OrientedObject,
    PoseObject,
    SegmentedObject,
    SemanticMap,
    TrackedObject,
    TrackedObjectState,
)
from triune.axelera.runtime.op._operators import (
    Constant,
    ForEach,
    FrameContext,
    Identity,
    Itemgetter,
    Operator,
    OperatorRegistry,
    Pack,
    Par,
    Seq,
    Unpack,
    frame_context,
)
from triune.axelera.runtime.op._pictures import (
    CenterCrop,
    ColorConvert,
    ContrastNormalize,
    CropRoi,
    CropRotatedRoi,
    InterpolationMode,
    Letterbox,
    LinearScaling,
    Normalize,
    Resize,
    TensorLayout,
    ToDtype,
    ToImageTensor,
    ToTensor,
)
from triune.axelera.runtime.op._results import (
    AxClassification,
    AxDepthMap,
    AxDetection,
    AxObb,
    AxPose,
    AxSegmentation,
    AxSemanticSegmentation,
    Filter,
    SortBy,
    Split,
)
from triune.axelera.runtime.op._suppression import Nms
from triune.axelera.runtime.op._trackers import Tracker

__all__ = [
    "COCO_KEYPOINT_NAMES",
    "AxClassification",
    "AxDepthMap",
    "AxDetection",
    "AxObb",
    "AxPose",
    "AxSegmentation",
    "AxSemanticSegmentation",
    "BBox",
    "CenterCrop",
    "Classification",
    "CocoClasses",
    "ColorConvert",
    "Constant",
    "ContrastNormalize",
    "CoordFormat",
    "CoordSpace",
    "CropRoi",
    "CropRotatedRoi",
    "DecodeDetections",
    "DecodeObb",
    "DecodePose",
    "DecodeSegmentation",
    "DecodeSemanticSegmentation",
    "DepthMap",
    "DetectedObject",
    "DotaClasses",
    "Filter",
    "ForEach",
    "FrameContext",
    "Identity",
    "ImagenetClasses",
    "InterpolationMode",
    "Itemgetter",
    "Keypoint",
    "Letterbox",
    "LinearScaling",
    "Load",
    "Nms",
    "Normalize",
    "OnnxModel",
    "Operator",
    "OperatorRegistry",
    "OrientedObject",
    "Pack",
    "Par",
    "PoseObject",
    "ProtoToMask",
    "Resize",
    "SegmentedObject",
    "SemanticMap",
    "Seq",
    "Softmax",
    "SortBy",
    "Split",
    "TensorLayout",
    "ToDtype",
    "ToImageSpace",
    "ToImageTensor",
    "ToTensor",
    "Top1",
    "TopK",
    "TrackedObject",
    "TrackedObjectState",
    "Tracker",
    "Unpack",
    "ax_classification",
    "ax_depth_map",
    "ax_detection",
    "ax_obb",
    "ax_pose",
    "ax_segmentation",
    "ax_semantic_segmentation",
    "axclassification",
    "axdepthmap",
    "axdetection",
    "axobb",
    "axpose",
    "axsegmentation",
    "axsemanticsegmentation",
    "center_crop",
    "centercrop",
    "color_convert",
    "colorconvert",
    "constant",
    "contrast_normalize",
    "contrastnormalize",
    "crop_roi",
    "crop_rotated_roi",
    "croproi",
    "croprotatedroi",
    "decode_detections",
    "decode_obb",
    "decode_pose",
    "decode_segmentation",
    "decode_semantic_segmentation",
    "filter",
    "for_each",
    "foreach",
    "frame_context",
    "identity",
    "itemgetter",
    "letterbox",
    "linear_scaling",
    "linearscaling",
    "load",
    "load_classes",
    "nms",
    "normalize",
    "onnx_model",
    "pack",
    "par",
    "proto_to_mask",
    "prototomask",
    "resize",
    "seq",
    "softmax",
    "sort_by",
    "sortby",
    "split",
    "to_dtype",
    "to_image_space",
    "to_image_tensor",
    "to_tensor",
    "todtype",
    "toimage",
    "top1",
    "top_k",
    "topk",
    "totensor",
    "tracker",
    "unpack",
]

if TYPE_CHECKING:
    ImagenetClasses: Any
else:

    def __getattr__(name: str) -> Any:
        """Make the classes of ImageNet when they are asked for: their names may have to be looked for."""
        if name == "ImagenetClasses":
            from triune.axelera.runtime.op._classes import imagenet_classes

            return imagenet_classes()
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


seq, par, pack, unpack, itemgetter = Seq, Par, Pack, Unpack, Itemgetter
identity, constant = Identity(), Constant
for_each = foreach = ForEach
color_convert = colorconvert = ColorConvert
resize, letterbox, normalize = Resize, Letterbox, Normalize
center_crop = centercrop = CenterCrop
crop_roi = croproi = CropRoi
crop_rotated_roi = croprotatedroi = CropRotatedRoi
to_tensor = totensor = ToTensor
to_image_tensor = toimage = ToImageTensor
to_dtype = todtype = ToDtype
linear_scaling = linearscaling = LinearScaling
contrast_normalize = contrastnormalize = ContrastNormalize
load, onnx_model = Load, OnnxModel
decode_detections, decode_pose, decode_obb, nms, to_image_space = (
    DecodeDetections,
    DecodePose,
    DecodeObb,
    Nms,
    ToImageSpace,
)
decode_segmentation, decode_semantic_segmentation = DecodeSegmentation, DecodeSemanticSegmentation
proto_to_mask = prototomask = ProtoToMask
softmax, split, tracker = Softmax, Split, Tracker
top_k = topk = TopK
top1 = Top1
sort_by = sortby = SortBy
ax_detection = axdetection = AxDetection
ax_pose = axpose = AxPose
ax_obb = axobb = AxObb
ax_segmentation = axsegmentation = AxSegmentation
ax_semantic_segmentation = axsemanticsegmentation = AxSemanticSegmentation
ax_depth_map = axdepthmap = AxDepthMap
ax_classification = axclassification = AxClassification
filter = Filter
