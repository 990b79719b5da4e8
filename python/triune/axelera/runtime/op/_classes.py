"""What classes are called, in the order in which models number them."""

from __future__ import annotations

import enum
import os
import re
import warnings
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from triune._files import read_text
from triune.axelera.runtime._errors import InvalidArgument
from triune.errors import FileError

_COCO = """person bicycle car motorcycle airplane bus train truck boat traffic_light fire_hydrant stop_sign parking_meter bench
bird cat dog horse sheep cow elephant bear zebra giraffe backpack umbrella handbag tie suitcase frisbee skis snowboard
sports_ball kite baseball_bat baseball_glove skateboard surfboard tennis_racket bottle wine_glass cup fork knife spoon
bowl banana apple sandwich orange broccoli carrot hot_dog pizza donut cake chair couch potted_plant bed dining_table
toilet tv laptop mouse remote keyboard cell_phone microwave oven toaster sink refrigerator book clock vase scissors
teddy_bear hair_drier toothbrush"""

_DOTA = """plane ship storage_tank baseball_diamond tennis_court basketball_court ground_track_field harbor bridge
large_vehicle small_vehicle helicopter roundabout soccer_ball_field swimming_pool"""

_POINTS = """nose left_eye right_eye left_ear right_ear left_shoulder right_shoulder left_elbow right_elbow left_wrist right_wrist
left_hip right_hip left_knee right_knee left_ankle right_ankle"""

CocoClasses = enum.IntEnum("CocoClasses", {name: number for number, name in enumerate(_COCO.split())})  # type: ignore[misc]
"""The 80 classes of COCO, in the order that detectors number them."""

DotaClasses = enum.IntEnum("DotaClasses", {name: number for number, name in enumerate(_DOTA.split())})  # type: ignore[misc]
"""The 15 classes of DOTA 1.0, in the order that detectors number them."""

COCO_KEYPOINT_NAMES: list[str] = _POINTS.split()
"""The 17 points of COCO's poses, in the order that models number them."""


def _identifier(label: str, number: int) -> str:
    found = re.sub(r"\W+", "_", label.split(",")[0].strip()).strip("_").lower()
    return found if found and not found[0].isdigit() else f"class_{found or number}"


def _enumeration(name: str, labels: Iterable[str]) -> Any:
    members: dict[str, int] = {}
    for number, label in enumerate(labels):
        identifier = _identifier(label, number)
        members[identifier if identifier not in members else f"{identifier}_{number}"] = number
    return enum.IntEnum(name, members)


def load_classes(file: str | os.PathLike[str], name: str = "Classes") -> Any:
    """Return an enumeration of the classes that a file names, numbered from 0.

    A ``.yaml`` file has them under ``names``, as a list or by number, as data sets of Ultralytics' do; others have one a line.
    Names become identifiers: up to a comma, in small letters, with ``_`` for what is none. Raises InvalidArgument if there
    are none.
    """
    path = Path(file)
    try:
        text = read_text(path)
    except FileError as error:
        raise InvalidArgument(str(error)) from None
    labels = _of_yaml(text) if path.suffix.lower() in (".yaml", ".yml") else text.splitlines()
    labels = [label.strip() for label in labels if label.strip()]
    if not labels:
        raise InvalidArgument(f"{path}: expected names of classes, one a line, or under 'names' in YAML")
    return _enumeration(name, labels)


def _of_yaml(text: str) -> list[str]:
    """Return the entries of ``names``: a list in brackets, or one a line with a dash or a number."""
    found = re.search(r"^names\s*:(.*)$", text, re.MULTILINE)
    if not found:
        return []
    rest = re.sub(r"(^|\s)#.*", "", found[1]).strip()
    if rest:
        inside = text[found.start(1) :].strip()
        closing = inside.find({"[": "]", "{": "}"}.get(inside[0], "\n"))
        return [_unquoted(entry) for entry in inside[1:closing].split(",")]
    entries: dict[int, str] = {}
    for line in text[found.end() :].splitlines():
        line = re.sub(r"\s#.*", "", line)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        entry = re.match(r"\s*(?:-|(\d+)\s*:)\s+(.+)$", line)
        if entry is None or (not line[0].isspace() and not line.startswith("-")):
            break
        entries[int(entry[1]) if entry[1] else len(entries)] = _unquoted(entry[2])
    return [entries[number] for number in sorted(entries)]


def _unquoted(entry: str) -> str:
    return re.sub(r"^\s*\d+\s*:\s*", "", entry).strip().strip("'\"")


@cache
def imagenet_classes() -> Any:
    """Return the 1000 classes of ImageNet, in the order that classifiers number them.

    Their names come from the file that the environment's ``TRIUNE_IMAGENET_LABELS`` names, one a line, or from torchvision if
    that is installed; without either they are ``class_0`` to ``class_999``, and a warning says so.
    """
    file = os.environ.get("TRIUNE_IMAGENET_LABELS")
    if file:
        found = load_classes(file, "ImagenetClasses")
        if len(found) != 1000:
            raise InvalidArgument(f"TRIUNE_IMAGENET_LABELS={file}: expected 1000 names, got {len(found)}")
        return found
    try:
        from torchvision.models._meta import _IMAGENET_CATEGORIES as labels
    except ImportError:
        warnings.warn(
            "op.ImagenetClasses: no names are known; let TRIUNE_IMAGENET_LABELS name a file of them, or install torchvision",
            stacklevel=3,
        )
        labels = [f"class_{number}" for number in range(1000)]
    return _enumeration("ImagenetClasses", labels)
