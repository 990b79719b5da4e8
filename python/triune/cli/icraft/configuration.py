"""What one of the vendor's TOML files says: sections, the model, the accelerator, where each step's document goes."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triune._files import read_text
from triune._text import short
from triune.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from triune._detpost import DetPost
    from triune.batch._pictures import Preprocess

__all__ = ["STEPS", "Configuration"]

STEPS = ("parse", "optimize", "quantize", "adapt", "generate")
"""The compiler's steps in order."""

_FORMS = {"parse": "parsed", "optimize": "optimized", "quantize": "quantized", "adapt": "adapted"}
_COMMON = {"json", "raw", "jr_path", "target", "log_path", "debug"}
_KEYS: dict[str, set[str]] = {
    "parse": {
        "net_name",
        "framework",
        "frame_version",
        "network",
        "inputs",
        "inputs_layout",
        "pre_method",
        "pre_scale",
        "pre_mean",
        "channel_swap",
    },
    "optimize": set(),
    "quantize": {
        "saturation",
        "forward_mode",
        "forward_dir",
        "forward_list",
        "bits",
        "qdtype",
        "per",
        "mix_precision",
        "no_imagemake",
    },
    "adapt": {"pass_on", "custom_config"},
    "generate": set(),
}
"""What has a meaning to each step, beside `_COMMON`."""
_TEXTS = {
    "net_name",
    "framework",
    "network",
    "json",
    "raw",
    "jr_path",
    "log_path",
    "forward_mode",
    "forward_dir",
    "forward_list",
    "input",
    "backends",
    "backend",
    "custom_config",
}
_TARGETS = {"buyi": "buyi", "zhuge": "zg330", "zg330": "zg330"}
_ENDS = {"buyi": "BY", "zg330": "ZG"}


@dataclass
class Configuration:
    """A file's sections, and what they mean."""

    file: Path
    sections: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, file: Path, verb: str, keys: Sequence[str] = ()) -> Configuration:
        """Read a file. `keys` are more of the section of a verb.

        Raises FileError if it cannot be read or is no TOML, ArgumentError if a key has no value.
        """
        try:
            sections = tomllib.loads(read_text(file))
        except (ValueError, RecursionError) as error:
            # Python's own for numbers of thousands of digits, and for brackets without end.
            raise FileError(short(f"{file}: no TOML: {error}")) from None
        wrong = [name for name, section in sections.items() if not isinstance(section, dict)]
        if wrong:
            raise FileError(f"{file}: {wrong[0]} stands outside of a section, such as [{verb}]")
        if len(keys) % 2 or any(not key.startswith("--") for key in keys[::2]):
            raise ArgumentError(f"{' '.join(keys)}: expected --KEY VALUE pairs")
        for key, value in zip(keys[::2], keys[1::2], strict=True):
            meant = _value(value)
            text = key[2:] in _TEXTS and not isinstance(meant, str)
            sections.setdefault(verb, {})[key[2:]] = value if text else meant
        for name, section in sections.items():
            for key, value in section.items():
                _check(f"{file}: [{name}] {key}", key, value)
        return cls(file, sections)

    def section(self, name: str) -> dict[str, Any]:
        """Return a section. Raises ArgumentError if there is none."""
        if name not in self.sections:
            raise ArgumentError(f"{self.file}: there is no section [{name}]")
        return self.sections[name]

    def text(self, section: str, key: str, default: str | None = None) -> str:
        """Return a text. Raises ArgumentError if it is missing and there is no default, or is none."""
        found = self.section(section).get(key, default)
        if found is None:
            raise ArgumentError(f"{self.file}: [{section}] has no {key}")
        if not isinstance(found, str):
            raise ArgumentError(f"{self.file}: [{section}] {key}: expected a text, got {found!r:.60}")
        return found

    def flag(self, section: str, key: str) -> bool:
        """Return a truth value, False if it is missing."""
        return self.section(section).get(key, False) in (True, 1, "true", "True")

    def without_effect(self, steps: Iterable[str]) -> list[str]:
        """Return a line for each section that has keys which change nothing here."""
        found = []
        for step in steps:
            keys = sorted(self.sections.get(step, {}).keys() - _COMMON - _KEYS[step])
            if keys:
                found.append(f"{self.file}: [{step}] {', '.join(keys)}: without effect here")
        return found

    @property
    def name(self) -> str:
        """The network's name."""
        return self.text("parse", "net_name")

    @property
    def target(self) -> str:
        """The accelerator. Raises ArgumentError if sections differ, or it is none that Triune compiles for."""
        said = {
            str(section["target"]).lower()
            for name, section in self.sections.items()
            if name in STEPS and section.get("target")
        } or {"buyi"}
        if len({_TARGETS.get(one, one) for one in said}) > 1:
            raise ArgumentError(f"{self.file}: the sections' targets differ: {', '.join(sorted(said))}")
        (found,) = {_TARGETS.get(one, one) for one in said}
        if found in ("wolong", "wl170"):
            from triune.icraft._xrt.wl170 import WHY

            raise ArgumentError(f"{self.file}: target: {WHY}")
        if found not in _ENDS:
            raise ArgumentError(f"{self.file}: target: expected BUYI or zhuge, got {found!r}")
        return found

    def place(self, step: str) -> Path:
        """Return the document that a step writes."""
        end = _ENDS[self.target] if step == "generate" else _FORMS[step]
        return Path(self.text(step, "jr_path", self.text("parse", "jr_path"))) / f"{self.name}_{end}.json"

    @property
    def pixels(self) -> Preprocess:
        """How images become numbers: (x − mean) / scale, blue first unless channels are swapped."""
        from triune.batch._pictures import Preprocess

        section = self.section("parse")

        def numbers(key: str, neutral: float) -> float | tuple[float, ...]:
            found = section.get(key, neutral)
            if found in ("nop", "", None):
                return neutral
            listed = found if isinstance(found, list) else [found]
            # With several inputs, the first one's.
            listed = listed[0] if listed and isinstance(listed[0], list) else listed
            each = tuple(float(one) for one in listed) or (neutral,)
            return each if len(each) > 1 else each[0]

        swap = section.get("channel_swap")
        rgb = swap == [2, 1, 0] or (isinstance(swap, list) and [2, 1, 0] in swap)
        return Preprocess(
            color="rgb" if rgb else "bgr", scale=1.0, mean=numbers("pre_mean", 0.0), std=numbers("pre_scale", 1.0)
        )

    @property
    def logic(self) -> tuple[bool, DetPost | None]:
        """Whether `ImageMake` is put in, and how `DetPost` is: what passes of [adapt] say, and their configuration.

        Raises ArgumentError for passes and settings that Triune has not; FileError if the configuration cannot be read.
        """
        from triune._detpost import DetPost

        adapt = self.sections.get("adapt", {})
        said = adapt.get("pass_on", "")
        passes = said.split(",") if isinstance(said, str) else said
        if not isinstance(passes, list) or not all(isinstance(one, str) for one in passes):
            raise ArgumentError(short(f"{self.file}: [adapt] pass_on: expected names of passes, got {said!r}"))
        names = {one.strip().replace("::", ".") for one in passes} - {"", "null"}
        unknown = sorted(names - {"customop.ImageMakePass", "customop.DetPostPass"})
        if unknown:
            raise ArgumentError(
                short(
                    f"{self.file}: [adapt] pass_on: {', '.join(unknown)}: Triune has customop.ImageMakePass and DetPostPass"
                )
            )
        off = "quantize" in self.sections and self.flag("quantize", "no_imagemake")
        image_make = "customop.ImageMakePass" in names and not off
        if "customop.DetPostPass" not in names:
            return image_make, None
        settings: dict[str, Any] = {}
        if adapt.get("custom_config"):
            place = Path(adapt["custom_config"])
            try:
                settings = tomllib.loads(read_text(place)).get("DetPost", {})
            except (ValueError, RecursionError) as error:
                raise FileError(short(f"{place}: no TOML: {error}")) from None
        threshold, anchors = settings.get("thr_f", 0.1), settings.get("anchor_num")
        wrong = not _is_number(threshold) or (anchors is not None and type(anchors) is not int)
        if wrong or settings.get("cmp_en", 1) not in (1, True):
            raise ArgumentError(
                short(
                    f"{adapt['custom_config']}: [DetPost]: expected thr_f, a score, anchor_num, a number, and cmp_en 1"
                )
            )
        return image_make, DetPost(float(threshold), anchors=anchors)

    @property
    def model(self) -> Path:
        """The model's file. Raises ArgumentError if it is of another framework's than ONNX."""
        path = Path(self.text("parse", "network"))
        framework = self.text("parse", "framework", "onnx").lower()
        if path.suffix.lower() == ".onnx" or (framework != "onnx" and path.with_suffix(".onnx").exists()):
            return path.with_suffix(".onnx")
        if framework == "pytorch":
            return path
        raise ArgumentError(
            f"{self.file}: [parse] framework {framework!r}: Triune reads ONNX; export {path.name} to "
            f"{path.with_suffix('.onnx')} and run this again"
        )


def _check(what: str, key: str, value: Any) -> None:
    """Raise ArgumentError, which begins with `what`, for a value that means nothing to its key; several inputs have several."""
    if key in _TEXTS and not isinstance(value, str):
        raise ArgumentError(short(f"{what}: expected a text, got {value!r}"))
    each = value if isinstance(value, list) and value and isinstance(value[0], list) else [value]
    if key == "inputs" and not all(isinstance(one, list) and all(map(_is_extent, one)) for one in each):
        raise ArgumentError(short(f"{what}: expected extents such as [1, 224, 224, 3], got {value!r}"))
    if key in ("pre_mean", "pre_scale") and value not in ("nop", ""):
        numbers = [number for one in each for number in (one if isinstance(one, list) else [one])]
        if not all(map(_is_number, numbers)):
            raise ArgumentError(short(f"{what}: expected a number for each channel, or 'nop', got {value!r}"))
        if key == "pre_scale" and not all(numbers):
            raise ArgumentError(
                short(f"{what}: pixels are divided by it: expected numbers other than 0, got {value!r}")
            )
    names = [one for part in each for one in (part if isinstance(part, list) else [part])]
    if key in ("inputs_layout", "pre_method") and not all(isinstance(one, str) for one in names):
        raise ArgumentError(short(f"{what}: expected a text, got {value!r}"))
    swaps = all(one == "nop" or one == "" or (isinstance(one, list) and all(map(_is_place, one))) for one in each)
    if key == "channel_swap" and not swaps:
        raise ArgumentError(short(f"{what}: expected an order of channels such as [2, 1, 0], or 'nop', got {value!r}"))


def _is_extent(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 63


def _is_place(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _is_number(value: Any) -> bool:
    if type(value) not in (int, float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _value(text: str) -> Any:
    """Return what a word of the command line is in TOML, a text if nothing else."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
