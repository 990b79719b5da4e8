"""What a file is, and what takes it: so that nobody is left with a file and an error of another format's."""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from triune._text import short
from triune.errors import FormatError

__all__ = [
    "ARRAYS",
    "AXM",
    "FLAT",
    "ICRAFT",
    "JSON",
    "MODEL",
    "ONNX",
    "PACKAGE",
    "PACKED",
    "PICTURE",
    "TEXT",
    "UNKNOWN",
    "Kind",
    "kind_of",
    "kind_of_bytes",
    "misread",
    "no_model",
    "require",
]


@dataclass(frozen=True)
class Kind:
    """A kind of file."""

    what: str
    """What it is called."""
    cure: str
    """What takes it; ``{path}`` stands for the file."""


ONNX = Kind(
    "an ONNX model",
    "triune run, predict, bench and inspect take it on this machine's CPU; triune compile {path} -o DIR makes a package",
)
MEGENGINE = Kind(
    "a MegEngine model",
    "triune run, predict, bench and inspect take it on this machine's CPU; triune convert makes an ONNX model of it",
)
PACKED = Kind(
    "a packed model of MegEngine Lite",
    "triune.megenginelite.LiteNetwork loads it; triune inspect shows what is in it",
)
PACKAGE = Kind(
    "a package for a card",
    "triune run, profile, report, explore and inspect take it; on this machine's CPU, run the model that it was compiled from",
)
AXM = Kind(
    "a package for a card in one file",
    "op.load of triune.axelera.runtime loads it; unpack it, python -m zipfile -e {path} DIR, and DIR is a package",
)
ICRAFT = Kind(
    "an Icraft network",
    "triune profile takes it if it has commands; programs run it with triune.icraft.xrt.Session, see docs/icraft.md",
)
ICRAFT_FOLDER = Kind(
    "a folder of Icraft's networks",
    "choose one of its .json files: triune profile takes the one that has commands; programs run it with "
    "triune.icraft.xrt.Session, see docs/icraft.md",
)
FLAT = Kind(
    "an Icraft network in FlatBuffers form",
    "programs read it with Network.CreateFromFlatFile, and write it as .json and .raw, which more takes; see docs/icraft.md",
)
PARAMETERS = Kind("a file of an Icraft network's parameters", "the .json file beside it is the network")
SNAPSHOT = Kind(
    "a snapshot of an Icraft session", "Session.CreateWithSnapshot makes the session again, see docs/icraft.md"
)
FOLDER = Kind("a folder without a model.json", "packages are what triune compile -o DIR writes")
JSON = Kind("a JSON document, no network", "packages are read by their folder or model.json")
ARRAYS = Kind("a file of arrays", "it is an input: triune run MODEL --input {path}")
PICTURE = Kind("a picture", "it is an input: triune predict MODEL {path}")
TABLE = Kind("a table", "triune predict writes such files")
EMPTY = Kind("an empty file", "write or download it again")
POINTER = Kind("a pointer of Git LFS to a file that was not fetched", "git lfs pull fetches it")
PAGE = Kind("a web page", "what was downloaded is not the file itself: look at the link")
TORCH = Kind("a file of PyTorch", "torch.onnx.export writes the model as ONNX, see docs/pytorch.md")
SAFETENSORS = Kind("a file of weights alone", "export the model that they belong to as ONNX, see docs/pytorch.md")
TFLITE = Kind(
    "a TensorFlow Lite model",
    "tf2onnx makes an ONNX model of it: python -m tf2onnx.convert --tflite {path} --output model.onnx",
)
KERAS = Kind("a file of Keras", 'Keras writes the model as ONNX: model.export("model.onnx", format="onnx")')
OPENVINO = Kind("an OpenVINO model", "take the ONNX model that it was converted from")
TEXT = Kind("a text", "models are .onnx and .mge files, packages are folders with a model.json")
UNKNOWN = Kind("no file that Triune knows", "models are .onnx and .mge files, packages are folders with a model.json")

MODEL = (ONNX, MEGENGINE)
"""What runs on this machine's CPU as it is."""

_BEGINNINGS: list[tuple[int, bytes, Kind]] = [
    (0, b"packed_model", PACKED),
    (8, b"mgv2", MEGENGINE),
    (0, b"MGBC", MEGENGINE),
    (0, b"\xa5ICRAFT_RAW\xa5", PARAMETERS),
    (0, b"TRIUNE SNAPSHOT\n", SNAPSHOT),
    (0, b"\x93NUMPY", ARRAYS),
    (0, b"PK\x03\x04", ARRAYS),
    (0, b"\xff\xd8\xff", PICTURE),
    (0, b"\x89PNG", PICTURE),
    (0, b"GIF8", PICTURE),
    (0, b"BM", PICTURE),
    (0, b"PAR1", TABLE),
    (4, b"TFL3", TFLITE),
    (0, b"\x89HDF", KERAS),
    # A pickle of the number that torch.save wrote before it wrote archives.
    (0, b"\x80\x02\x8a\nl\xfc\x9cF\xf9", TORCH),
    (0, b"version https://git-lfs", POINTER),
]


def kind_of(path: Path) -> Kind | None:
    """Return what a file or folder is by how it begins, None if it is not there or cannot be read."""
    try:
        if path.is_dir():
            if (path / "model.json").exists():
                return PACKAGE
            return ICRAFT_FOLDER if any(_is_network(file) for file in sorted(path.glob("*.json"))[:8]) else FOLDER
        if not path.is_file():
            return None
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    kind = kind_of_bytes(head)
    if kind is JSON:
        return PACKAGE if path.name == "model.json" else ICRAFT if _is_network(path) else JSON
    if kind is ARRAYS and path.suffix.lower() == ".axm":
        return AXM
    return ONNX if kind is UNKNOWN and path.suffix.lower() == ".onnx" else kind


def kind_of_bytes(head: bytes) -> Kind:
    """Return what a file is by its first bytes, some 4 kB."""
    for at, magic, kind in _BEGINNINGS:
        if head[at:].startswith(magic):
            return _archived(head) if magic == b"PK\x03\x04" else kind
    if not head:
        return EMPTY
    if head[8:10] == b'{"' and b'"data_offsets"' in head:
        return SAFETENSORS
    text = head.lstrip()[:15].lower()
    if text.startswith((b"<!doctype html", b"<html")):
        return PAGE
    if text[:1] in (b"{", b"["):
        return ICRAFT if b'"icraft::xir::' in head else JSON
    if text.startswith(b"<?xml") and b"<net " in head:
        return OPENVINO
    if _is_flat(head):
        return FLAT
    # A protocol buffer of ONNX begins with its version, a small number; some writers put the producer first.
    if head[:1] in (b"\x08", b"\x12"):
        return ONNX
    return TEXT if _is_text(head) else UNKNOWN


def require(path: Path, kinds: Collection[Kind], command: str) -> None:
    """Raise ValueError, which says what takes the file, if it is of none of these kinds; FileNotFoundError if it is not there."""
    found = kind_of(path)
    if found is None:
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such file or folder")
        return
    # What is wrong with a file that nobody knows, its reader says, too.
    if found in kinds or found is UNKNOWN:
        return
    wanted = " or ".join(kind.what for kind in kinds)
    raise ValueError(f"{path} is {found.what}, and triune {command} takes {wanted}: {found.cure.format(path=path)}")


def misread(error: FormatError, source: str | Path | bytes, name: str, taken: Collection[Kind] = MODEL) -> FormatError:
    """Return the error for bytes that are no model with what they are, where they begin as something that is known.

    `source` is the path or the bytes, `name` what messages call them, `taken` what the reader takes.
    """
    kind = kind_of_bytes(source[:4096]) if isinstance(source, bytes) else kind_of(Path(source))
    # Of a damaged one of its own, the reader says more.
    if kind is None or kind in (*taken, UNKNOWN) or (kind is ICRAFT and error.format == "XIR"):
        return error
    told = FormatError(no_model(kind, name))
    told.format = error.format
    return told


def no_model(kind: Kind, name: str) -> str:
    """Return what to say of a file that is something else, and what takes that."""
    return short(f"{name} is {kind.what}, not an ONNX model: {kind.cure.format(path=name)}")


def _archived(head: bytes) -> Kind:
    """Return what a zip archive is by the name of its first file."""
    name = head[30 : 30 + int.from_bytes(head[26:28], "little")]
    if name.endswith((b"/data.pkl", b"/version", b"/byteorder", b"/.format_version")):
        return TORCH
    return KERAS if name in (b"metadata.json", b"config.json") else ARRAYS


def _is_text(head: bytes) -> bool:
    """Say whether bytes are text in UTF-8, of which the last character may be cut off."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character.isspace() for character in text)


def _is_flat(head: bytes) -> bool:
    """Say whether bytes begin with a table as a network has it in FlatBuffers form, which has no magic of its own."""
    if len(head) < 64:
        return False
    (root,) = struct.unpack_from("<I", head)
    if not 4 <= root <= len(head) - 4:
        return False
    fields = root - struct.unpack_from("<i", head, root)[0]
    if not 4 <= fields <= len(head) - 28:
        return False
    size, inline, operations = struct.unpack_from("<HH18xH", head, fields)
    return size in (26, 28) and 4 <= operations < inline


def _is_network(path: Path) -> bool:
    with path.open("rb") as file:
        return b'"icraft::xir::' in file.read(1 << 20)
