"""What a model says of its pictures and classes: how a picture becomes its input, and what its classes are called.

In an ONNX file that is metadata, in a package the file ``model_info.json``, whose ``labels`` programs for compiled models
look for.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from triune._text import short
from triune.errors import ArgumentError, Error

if TYPE_CHECKING:
    from triune.batch import Preprocess

__all__ = [
    "FILE",
    "Inputs",
    "ModelInfo",
    "Spared",
    "check_images",
    "check_labels",
    "described",
    "labels_of",
    "names_of",
    "other_count",
    "spared_in",
]

Inputs = Sequence[tuple[str, str, Sequence[int | str]]]
"""Name, dtype and shape of each input of a model; open extents have names."""

FILE = "model_info.json"
"""Its name in a package."""

_PREPROCESS, _LABELS = "triune.preprocess", "triune.labels"
"""Keys of ONNX metadata."""

_SPARED = "triune.kept_float"
"""The key of what quantization was told to leave in float."""


class ModelInfo(NamedTuple):
    """What is known beside the network."""

    preprocess: Preprocess | None = None
    """How a picture becomes the input."""
    labels: tuple[str, ...] = ()
    """Names of the classes, in their order."""

    @classmethod
    def of_properties(cls, properties: Mapping[str, str]) -> ModelInfo:
        """Read an ONNX file's metadata. Raises ArgumentError, with the key, if it is damaged."""
        found: dict[str, Any] = {}
        for key, name in ((_PREPROCESS, "preprocess"), (_LABELS, "labels")):
            if key in properties:
                try:
                    found[name] = json.loads(properties[key])
                except ValueError as error:
                    raise ArgumentError(f"metadata {key!r}: not JSON ({error}); write the model again") from None
        return cls._of(found)

    @classmethod
    def of_model(cls, path: Path) -> ModelInfo:
        """Read an ONNX file's metadata; nothing from one that cannot be read, as who takes it says what is wrong.

        Raises ArgumentError if what it says is damaged.
        """
        return described(path)[0]

    @classmethod
    def of_package(cls, folder: Path) -> ModelInfo:
        """Read a package's file; nothing, if it has none. Raises ArgumentError, with the path, if it is damaged."""
        from triune._files import TEXT_LIMIT, read

        path = folder / FILE
        if not path.exists():
            return cls()
        try:
            found = json.loads(read(path, TEXT_LIMIT))
            if not isinstance(found, dict):
                raise ArgumentError(f"expected an object, got {type(found).__name__}")
            return cls._of(found)
        except (ArgumentError, ValueError) as error:
            raise ArgumentError(f"{path}: {error}; compile the model again") from None

    @classmethod
    def _of(cls, found: Mapping[str, Any]) -> ModelInfo:
        from triune.batch import Preprocess

        labels = found.get("labels", [])
        if not isinstance(labels, list) or not all(isinstance(each, str) for each in labels):
            raise ArgumentError("labels: expected a list of texts")
        how = Preprocess.from_dict(found["preprocess"]) if "preprocess" in found else None
        return cls(how, tuple(labels))

    def over(self, other: ModelInfo) -> ModelInfo:
        """Return this, and where it says nothing, what the other says."""
        return ModelInfo(other.preprocess if self.preprocess is None else self.preprocess, self.labels or other.labels)

    def check(self, inputs: Inputs, asked: str = "") -> None:
        """Check that how pictures become an input fits a model with these inputs, if any takes pictures.

        With `asked`, which names who says how, one has to. Raises ArgumentError.
        """
        if self.preprocess is None:
            return
        if asked:
            check_images(asked, inputs, self.preprocess)
            ((name, dtype, shape),) = inputs
            height_width = self.preprocess.size
            if height_width is not None and self.preprocess.frame(name, dtype, shape) is None:
                told = f"{dtype} ({', '.join(map(str, shape))})"
                raise ArgumentError(short(f"size: input {name!r} is {told}, of which {height_width} is no (H, W)"))
        fault: ArgumentError | None = None
        for name, dtype, shape in inputs:
            frame = self.preprocess.frame(name, dtype, shape)
            if frame is None:
                continue
            try:
                self.preprocess.check(frame)
            except ArgumentError as error:
                fault = fault or error
            else:
                return
        if fault is not None:
            raise fault

    def note(self, model: Any) -> None:
        """Write it down in an `onnx.ModelProto`."""
        texts = {}
        if self.preprocess is not None:
            texts[_PREPROCESS] = json.dumps(self.preprocess.to_dict())
        if self.labels:
            texts[_LABELS] = json.dumps(self.labels, ensure_ascii=False)
        for entry in [entry for entry in model.metadata_props if entry.key in texts]:
            model.metadata_props.remove(entry)
        for key, text in texts.items():
            model.metadata_props.add(key=key, value=text)

    def write(self, folder: Path) -> None:
        """Write a package's file; take an older one away if there is nothing to say."""
        from triune._files import write_text

        path = folder / FILE
        if self == ModelInfo():
            path.unlink(missing_ok=True)
            return
        found: dict[str, Any] = {"labels": list(self.labels)}
        if self.preprocess is not None:
            found["preprocess"] = self.preprocess.to_dict()
        write_text(path, json.dumps(found, ensure_ascii=False, indent=2) + "\n")


def described(path: Path) -> tuple[ModelInfo, Inputs | None]:
    """Return what an ONNX file's metadata say, and its inputs, from opening it once.

    Nothing, and None, of one that cannot be read, as who takes it says what is wrong. Raises ArgumentError if what it says is
    damaged.
    """
    from triune import _native

    try:
        session = _native.Session(path)
        properties, inputs = session.metadata["properties"], session.inputs
    except Error:
        return ModelInfo(), None
    try:
        return ModelInfo.of_properties(properties), inputs
    except ArgumentError as error:
        raise ArgumentError(f"{path}: {error}") from None


class Spared(NamedTuple):
    """The operators that quantization was told to leave in float, by their names."""

    mixed: tuple[str, ...]
    """Those that hurt most."""
    bound: str
    """What they were spared for."""
    asked: tuple[str, ...]
    """Those that were named."""

    def note(self, model: Any) -> None:
        """Write it down in an `onnx.ModelProto`, if there are any."""
        if self.mixed or self.asked:
            model.metadata_props.add(key=_SPARED, value=json.dumps(self._asdict()))

    def why(self, node: str) -> str:
        """Return why a node is in float, as the rest of a sentence; nothing of one that is not by such a choice."""
        if node in self.mixed:
            return (
                f", as --mixed spared it for a bound of {self.bound} when the model was quantized: a lower --bound leaves more "
                "to the device"
            )
        if node in self.asked:
            return ", as --keep-float or --float-from left it so when the model was quantized"
        return ""


def spared_in(path: Path) -> Spared:
    """Return what an ONNX file that can be read says of it; none are spared in one whose metadata are of another form."""
    from triune import _native

    text = _native.Session(path).metadata["properties"].get(_SPARED, "{}")
    try:
        found = json.loads(text)
        mixed, asked = (tuple(map(str, found.get(key, ()))) for key in ("mixed", "asked"))
        return Spared(mixed, str(found.get("bound", "")), asked)
    except (ValueError, TypeError, AttributeError):
        return Spared((), "", ())


def check_images(asked: str, inputs: Inputs, how: Preprocess | None) -> None:
    """Check that a model with these inputs takes images at all, of whatever height and width where it leaves them open.

    `asked` names the options that say how images become inputs, and `how` is what they say, or what was said before.

    Raises ArgumentError.
    """
    from triune.batch._pictures import Frame

    pairs = how is not None and how.color == "yuyv"
    why = f"it has {len(inputs)} inputs, which come from arrays"
    if len(inputs) == 1:
        name, dtype, shape = inputs[0]
        extents = [extent if isinstance(extent, int) else 8 for extent in shape]
        if Frame.of(name, dtype, extents, None, pairs=pairs) is not None:
            return
        why = f"input {name!r} is {dtype} ({', '.join(map(str, shape))})"
    raise ArgumentError(short(f"{asked}: the model takes no images{' of yuyv' if pairs else ''}: {why}"))


def names_of(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of classes that a caller gives. Raises ArgumentError for what are none, such as one str."""
    names = () if isinstance(labels, str) else tuple(labels)
    if isinstance(labels, str) or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"labels: expected a sequence of str, one for each class, got {short(repr(labels))}")
    return names


def labels_of(path: Path) -> tuple[str, ...]:
    """Return the names in a text file in UTF-8, a line each, without those of empty lines at its end.

    A file that is one list of names, or one dict from the classes' numbers to names, as JSON or Python spell them, is read as
    that; a name may stand last in a list of its own, as in ImageNet's ``{"0": ["n01440764", "tench"], …}``.

    Raises FileError if it cannot be read, ArgumentError if it holds none, or is no such text.
    """
    from triune._files import TEXT_LIMIT, read

    data = read(path, TEXT_LIMIT)
    try:
        # With or without the mark that some editors begin such files with.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArgumentError(
            short(
                f"{path}: line {line}: byte 0x{data[error.start]:02x} is no text in UTF-8; save the names of classes in that "
                "encoding"
            )
        ) from None
    if (names := _literal(text)) is not None:
        if isinstance(names, dict):
            names = _numbered(path, names)
        return tuple(_name(path, number, name) for number, name in enumerate(names))
    lines: Sequence[str] = text.splitlines()
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    if not lines:
        raise ArgumentError(f"{path}: expected names of classes, a line each, got none")
    return tuple(line.strip() for line in lines)


def check_labels(labels: Sequence[str], outputs: Mapping[str, Sequence[int | str]], what: str) -> None:
    """Raise ArgumentError if the shapes of the outputs say that none has as many classes as there are labels.

    Classes are (N, C), further extents 1. Nothing is said of open extents, nor where there may be boxes, which values tell.
    """
    counts = {}
    for name, shape in outputs.items():
        if shape == ("...",) or any(isinstance(extent, str) for extent in shape[1:]):
            return
        if len(shape) >= 2 and all(extent == 1 for extent in shape[2:]):
            counts[name] = int(shape[1])
        elif len(shape) == 3:
            return
    of_classes = {name: count for name, count in counts.items() if count > 1}
    if of_classes and len(labels) not in of_classes.values():
        name, count = next(iter(of_classes.items()))
        told = other_count(count, len(labels))
        raise ArgumentError(short(f"{what}: expected {count}, one per class of {name!r}, {told}"))


def other_count(expected: int, got: int) -> str:
    """Return what to say of labels that are not as many as the classes, behind how many were expected."""
    if got == expected - 1:
        return f"got {got}; if the model's class 0 is what is none of them (background), put a name for it in front"
    return f"got {got}"


def _literal(text: str) -> list[Any] | dict[Any, Any] | None:
    """Return the list or dict that a text is as a whole, None if it is none, or an empty one."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    for reads in (json.loads, ast.literal_eval):
        try:
            found = reads(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(found, list | dict):
            return found or None
    return None


def _numbered(path: Path, names: Mapping[Any, Any]) -> list[Any]:
    """Return the names of a dict in the order of their numbers."""
    try:
        numbers = {int(key): name for key, name in names.items()}
    except (TypeError, ValueError):
        key = next(iter(names))
        raise ArgumentError(
            short(f"{path}: expected names by the numbers of their classes, 0 and on, got the key {key!r}")
        ) from None
    missing = next((number for number in range(len(names)) if number not in numbers), None)
    if missing is not None:
        raise ArgumentError(f"{path}: there is no name for class {missing}, of {len(names)}")
    return [numbers[number] for number in range(len(names))]


def _name(path: Path, number: int, name: object) -> str:
    if isinstance(name, list | tuple) and name:
        name = name[-1]
    if not isinstance(name, str):
        raise ArgumentError(short(f"{path}: class {number}: expected a name, got {name!r}"))
    return name.strip()
