"""Masks: of each object that was found, and of classes at each place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triune.axelera.runtime._errors import InvalidArgument
from triune.axelera.runtime.op._decoding import ANCHOR_FREE, best_rows, rows_of
from triune.axelera.runtime.op._operators import FRAME, Array, Operator, numbers, table


class DecodeSegmentation(Operator):
    """Makes boxes with coefficients of masks, and prototypes of masks, of a YOLO model's two outputs."""

    algo: str
    num_classes: int
    num_mask_coeffs: int = 32
    confidence_threshold: float = 0.25
    max_boxes_pre_nms: int = 30000
    input_format: str = "auto"

    def __call__(self, *outputs: Any) -> tuple[Array, Array]:
        """Return rows of corners, score, class and coefficients, in pixels of the model's input; and the prototypes (K, H, W).

        `outputs` are both outputs in either order, or one tuple of them. Raises InvalidArgument for another algorithm or shape.
        """
        if str(self.algo).lower() not in ANCHOR_FREE:
            raise InvalidArgument(f"decode_segmentation: algo {self.algo!r} is none of yolov8, yolo11")
        given = outputs[0] if len(outputs) == 1 else outputs
        if not isinstance(given, Sequence) or len(given) != 2:
            raise InvalidArgument("decode_segmentation: expected two outputs, boxes and prototypes")
        arrays = [numbers("decode_segmentation", one, np.float32) for one in given]
        right = arrays[1].ndim == 4 or arrays[1].shape[:1] == (self.num_mask_coeffs,)
        raw, protos = arrays if right else arrays[::-1]
        protos = protos[0] if protos.ndim == 4 and len(protos) == 1 else protos
        if protos.ndim != 3 or len(protos) != self.num_mask_coeffs:
            raise InvalidArgument(
                f"decode_segmentation: expected {self.num_mask_coeffs} prototypes, got shape {protos.shape}"
            )
        rows = rows_of("decode_segmentation", raw, 4 + self.num_classes + self.num_mask_coeffs)
        behind = 4 + self.num_classes
        found = best_rows(rows, rows[:, 4:behind], self.confidence_threshold, self.max_boxes_pre_nms, rows[:, behind:])
        return found, protos


class ProtoToMask(Operator):
    """Makes a mask for each box of its coefficients and the prototypes; call it before `ToImageSpace`."""

    mask_threshold: float = 0.5
    num_mask_coeffs: int = 32

    def __call__(self, *inputs: Any) -> list[Array]:
        """Return masks over the boxes, in the prototypes' resolution: uint8, 255 where the object is, 0 elsewhere.

        Raises InvalidArgument for other shapes, a threshold beyond 0 to 1, and boxes without a place.
        `inputs` are rows and prototypes, or one tuple of both. A prototype's pixel is the model's input's by the letterbox's
        size, or four by four pixels of it without one.
        """
        detections, protos = inputs[0] if len(inputs) == 1 else inputs
        rows = table("proto_to_mask", detections, 6 + self.num_mask_coeffs, np.float32)
        protos = numbers("proto_to_mask", protos, np.float32)
        if protos.ndim != 3 or len(protos) != self.num_mask_coeffs:
            raise InvalidArgument(
                f"proto_to_mask: expected {self.num_mask_coeffs} prototypes, got shape {protos.shape}"
            )
        if not 0 <= self.mask_threshold <= 1:
            raise InvalidArgument(f"proto_to_mask: expected a mask_threshold of 0 to 1, got {self.mask_threshold!r}")
        if not np.isfinite(rows[:, :4]).all():
            raise InvalidArgument("proto_to_mask: expected boxes whose corners are finite numbers")
        kinds, height, width = protos.shape
        frame = FRAME.get()
        place = None if frame is None else frame.saved.get("place")
        down, across = (height * 4, width * 4) if place is None else place.made.shape[:2]
        # The sigmoid is past a threshold where its argument is past the threshold's logit.
        with np.errstate(divide="ignore"):
            least = np.log(self.mask_threshold) - np.log1p(-self.mask_threshold)
        masks = []
        for row in rows:
            left, right = (round(float(x) * width / across) for x in (row[0], row[2]))
            top, bottom = (round(float(y) * height / down) for y in (row[1], row[3]))
            part = protos[:, max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
            weight = row[6 : 6 + self.num_mask_coeffs]
            scores = (weight @ part.reshape(kinds, -1)).reshape(part.shape[1:])
            masks.append(np.where(scores > least, 255, 0).astype(np.uint8))
        return masks


class DecodeSemanticSegmentation(Operator):
    """Makes the class of each place of a model's scores."""

    num_classes: int

    def __call__(self, scores: Any) -> Array:
        """Return the classes (N, H, W) of scores (N, classes, H, W). Raises InvalidArgument for another shape."""
        array = numbers("decode_semantic_segmentation", scores)
        if array.ndim != 4 or array.shape[1] != self.num_classes:
            raise InvalidArgument(
                f"decode_semantic_segmentation: expected (N, {self.num_classes}, H, W), got {array.shape}"
            )
        classes: Array = array.argmax(1)
        return classes
