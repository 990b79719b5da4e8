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
from triune._model_info import labels_of
from triune.axelera.runtime._errors import InvalidArgument
from triune.errors import ArgumentError, FileError

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


_RESERVED = ("mro", "name", "value")
"""What members of enumerations cannot be called."""


def _identifier(label: str, number: int) -> str:
    found = re.sub(r"\W+", "_", label.split(",")[0].strip()).strip("_").lower()
    fits = found and not found[0].isdigit() and found not in _RESERVED
    return found if fits else f"class_{found or number}"


def _enumeration(name: str, labels: Iterable[str]) -> Any:
    members: dict[str, int] = {}
    for number, label in enumerate(labels):
        identifier = _identifier(label, number)
        # Whatever a name is made of, no class may take another one's.
        while identifier in members:
            identifier = f"{identifier}_{number}"
        members[identifier] = number
    return enum.IntEnum(name, members)


def load_classes(file: str | os.PathLike[str], name: str = "Classes") -> Any:
    """Return an enumeration of the classes that a file names, numbered from 0.

    A ``.yaml`` file has them under ``names``, as a list or by number, as data sets of Ultralytics' do; others have one a line, or
    are a list, or a dict from numbers to names, as JSON or Python spell them.
    Names become identifiers: up to a comma, in small letters, with ``_`` for what is none. Raises InvalidArgument if there
    are none, or a number is left out: the ones behind it would be other classes'.
    """
    path = Path(file)
    try:
        text = read_text(path)
        if path.suffix.lower() in (".yaml", ".yml"):
            found = _of_yaml(text)
        elif text.lstrip()[:1] in ("{", "["):
            found = dict(enumerate(labels_of(path)))
        else:
            found = dict(enumerate(line for line in text.splitlines() if line.strip()))
    except (ArgumentError, FileError) as error:
        raise InvalidArgument(str(error)) from None
    if not found:
        raise InvalidArgument(f"{path}: expected names of classes, one a line, or under 'names' in YAML")
    for number in range(len(found)):
        if not found.get(number, "").strip():
            raise InvalidArgument(
                f"{path}: names: number {number} is missing or empty, and classes are numbered from 0 without a gap"
            )
    return _enumeration(name, [found[number].strip() for number in range(len(found))])


_ENTRY = re.compile(r"""\s*(?:(\d{1,9})\s*:)?\s*("[^"]*"|'[^']*'|[^,]*)(?:,|$)""")
"""What stands between commas: a name, in quotes or not, behind its number or not."""


def _of_yaml(text: str) -> dict[int, str]:
    """Return the entries of ``names`` by number: a list in brackets, or one a line with a dash or a number."""
    found = re.search(r"^names\s*:(.*)$", text, re.MULTILINE)
    if not found:
        return {}
    rest = re.sub(r"(^|\s)#.*", "", found[1]).strip()
    if rest:
        inside = text[found.start(1) :].strip()
        closing = inside.find({"[": "]", "{": "}"}.get(inside[0], "\n"))
        listed = inside[1:closing].strip().removesuffix(",")
        several = (match for match in _ENTRY.finditer(listed) if match[0])
        return {int(one[1]) if one[1] else at: _unquoted(one[2]) for at, one in enumerate(several)}
    entries: dict[int, str] = {}
    for line in text[found.end() :].splitlines():
        line = re.sub(r"\s#.*", "", line)
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        entry = re.match(r"\s*(?:-|(\d{1,9})\s*:)\s+(.+)$", line)
        if entry is None or (not line[0].isspace() and not line.startswith("-")):
            break
        entries[int(entry[1]) if entry[1] else len(entries)] = _unquoted(entry[2])
    return entries


def _unquoted(entry: str) -> str:
    return entry.strip().strip("'\"")


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
