"""`axelera.types.enums`: what a model is for, and how its data lie."""

from __future__ import annotations

import enum
from typing import Any, Self

from triune._text import short
from triune.axelera._image import ColorFormat, Named, joined

__all__ = ["BoxFormat", "ColorFormat", "ImageReader", "ModelType", "ResizeMode", "TaskCategory", "TensorLayout"]


class BoxFormat(Named):
    """What the numbers of a box are: corners, centre and extents, corner and extents, with an angle, or four corners."""

    XYXY = "xyxy"
    XYWH = "xywh"
    LTWH = "ltwh"
    XYWHR = "xywhr"
    XYXYXYXY = "xyxyxyxy"


class ResizeMode(Named):
    """How a picture was brought to the model's size."""

    ORIGINAL = 0
    STRETCH = 1
    SQUISH = 2
    LETTERBOX_FIT = 3


class TensorLayout(Named):
    """The order of a tensor's axes."""

    NCHW = 0
    NHWC = 1
    CHWN = 2


class ModelType(Named):
    """Whether a model is a network."""

    DEEP_LEARNING = 0
    CLASSICAL_CV = 1


class ImageReader(Named):
    """What reads pictures for a model's calibration."""

    PIL = 0
    OPENCV = 1


class TaskCategory(enum.Flag):
    """What a model's outputs are; several, joined by ``|``, for a model with several kinds."""

    Classification = enum.auto()
    ObjectDetection = enum.auto()
    KeypointDetection = enum.auto()
    SemanticSegmentation = enum.auto()
    InstanceSegmentation = enum.auto()
    ImageEnhancement = enum.auto()
    ObjectTracking = enum.auto()
    LanguageModel = enum.auto()

    @classmethod
    def parse(cls, value: Any) -> Self:
        """Return the category of a name, of several (``"A|B"``, or a list), in either case.

        Raises ValueError for another name, TypeError for another type.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            names = value.split("|")
        elif isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
            names = list(value)
        else:
            raise TypeError(f"Invalid type for TaskCategory `{type(value).__name__}`, use str or list[str]")
        found = cls(0)
        for name in names:
            lower = name.strip().lower()
            member = next((member for key, member in cls.__members__.items() if key.lower() == lower), None)
            if member is None:
                raise ValueError(short(f"Unknown TaskCategory {name.strip()}, valid options are {joined(cls)}"))
            found |= member
        return found
