"""From a file to the bytes of a model: packed models are taken apart, encrypted ones decrypted."""

from __future__ import annotations

import functools
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from triune._files import MODEL_LIMIT, opened
from triune.errors import FileError
from triune.megenginelite import _ciphers, base
from triune.megenginelite._binding import without_device_part
from triune.megenginelite._config import MOST_THREADS, LiteIO, LiteNetworkIO, LiteOptions, Settings
from triune.megenginelite._errors import failure
from triune.megenginelite._layout import LiteLayout
from triune.megenginelite.struct import LiteDeviceType, LiteIOType

__all__ = ["Model", "open_model"]

_PACKED = b"packed_model"

Path = str | os.PathLike[str]


@dataclass
class Stated:
    """An input or output as a packed model's information has it."""

    what: str
    name: str
    shape: list[int]
    """Empty if it is not said."""
    kind: int | None
    """The `LiteDataType`, if it is said."""


@dataclass
class Model:
    """A model, and what came with it."""

    source: str | bytes
    """The path of a file that is the bare model, or the model's bytes."""
    ios: LiteNetworkIO = field(default_factory=LiteNetworkIO)
    """How the inputs and outputs are wanted, by what a packed model says."""
    title: str = "the model"
    """What messages call it: the file's name, or a packed model's own."""
    cipher: str = ""
    """The cipher that it was decrypted with, if any."""
    stated: list[Stated] = field(default_factory=list)
    """What a packed model says of its inputs and outputs themselves."""
    state: tuple[int, ...] = ()
    """What tells the file from another one of its name."""

    def content(self) -> bytes:
        """Return the bytes of the bare model.

        Raises RuntimeError if the file cannot be read, or is no longer what was loaded.
        """
        if isinstance(self.source, bytes):
            return self.source
        with opened(self.source, MODEL_LIMIT) as file:
            if _state(file) != self.state:
                raise failure(f"{self.source}: the file has changed since the model was loaded")
            return file.read()

    def explained(self, error: RuntimeError) -> RuntimeError:
        """Return an error of loading this model with what may be the cause.

        What has no mark of MegEngine's is read as ONNX, which has no mark: that alone would mislead.
        """
        from triune.errors import FormatError

        if (cured := without_device_part(error, self.title)) is not None:
            return cured
        if not isinstance(error, FormatError) or error.format != "ONNX":
            return error
        if self.title.endswith(".onnx") and not self.cipher:
            return error
        if self.cipher:
            cause = (
                f"it was decrypted with {self.cipher}: the key may be another one (LiteGlobal.update_decryption_key), or the "
                "file is encrypted with another cipher"
            )
        else:
            cause = "if it is encrypted, LiteConfig.bare_model_cryption_name names the cipher"
        return failure(
            f"invalid model format: {self.title} is no MegEngine model, plain or packed, by its first bytes, and {error}; {cause}"
        )


def open_model(file: Any, settings: Settings, asked: LiteNetworkIO, *, configure: bool = True) -> Model:
    """Find the model in a path or a binary file object; with `configure`, a packed one's configuration goes to `settings`.

    What it says of an input or output overrides what the program `asked` for, item by item.

    A bare model in a file stays there, unless it may have to be written later: the native module maps or reads it.

    Raises FileNotFoundError, RuntimeError if the file cannot be read or is damaged, AssertionError if `file` is neither.
    """
    title = "the model"
    if isinstance(file, str | os.PathLike):
        path = os.fspath(file)
        title = os.path.basename(os.fsdecode(path))
        try:
            kind = os.stat(path).st_mode
            with opened(path, MODEL_LIMIT) as model:
                if not settings.cipher:
                    start = model.read(len(_PACKED))
                    if start and start != _PACKED and not settings.layout_transform:
                        return Model(path, title=title, state=_state(model))
                    model.seek(0)
                data = model.read(MODEL_LIMIT)
        except FileNotFoundError:
            raise
        except FileError as error:
            hint = "; to read a pipe, open it and pass what open() returned" if stat.S_ISFIFO(kind) else ""
            raise FileError(f"load: {error}{hint}") from None
        except (OSError, ValueError) as error:
            raise failure(f"load: {path!r}: {error}") from None
    else:
        assert hasattr(file, "read"), f"load: expected a path or a binary file, got {type(file).__name__}"
        data = file.read()
        if isinstance(named := getattr(file, "name", None), str):
            title = os.path.basename(named)
        assert isinstance(data, bytes), "load: expected a file that is open for reading bytes ('rb')"
    if not data:
        raise failure(f"invalid model format: {title} is empty")
    if data.startswith(_PACKED):
        return _unpack(data, settings, asked, configure)
    if settings.cipher:
        data = _decrypted(settings.cipher, data, title)
        if data.startswith(_PACKED):
            return _unpack(data, settings, asked, configure)
    return Model(data, title=title, cipher=settings.cipher)


def _decrypted(cipher: str, data: bytes, what: str) -> bytes:
    """Decrypt, and say of what does not decrypt what it looks like and what may be the cause."""
    from triune.errors import KeyMismatchError

    try:
        return _ciphers.decrypt(cipher, data)
    except RuntimeError as error:
        # MegEngine's marks: plain models have them at these places.
        if data[:4] == b"MGBC" or data[8:12] == b"mgv2":
            cause = "it is a plain MegEngine model: leave LiteConfig.bare_model_cryption_name empty"
        elif isinstance(error, KeyMismatchError):
            cause = "LiteGlobal.update_decryption_key sets the key"
        else:
            cause = f"it may not be encrypted, or with another cipher than {cipher}"
        raise type(error)(f"{what}: {error}; {cause}") from None


def _state(file: BinaryIO) -> tuple[int, ...]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _unpack(data: bytes, settings: Settings, asked: LiteNetworkIO, configure: bool) -> Model:
    from triune import _native

    packed = _native.unpack_model(data)
    name: str = packed["name"]
    info: bytes = packed["info"]
    where = f"packed model {name!r}"
    ios = LiteNetworkIO()
    if info:
        cipher = packed["info_decryption"]
        if cipher in ("", "NONE"):
            cipher = ""
        else:
            info = _decrypted(cipher, info, f"the information of {where}")
        if packed["info_parser"] not in ("", "LITE_default"):
            raise failure(f"packed model {name!r}: its information is for the parser {packed['info_parser']!r}")
        parsed = _parse(info, name, cipher)
        if configure:
            _apply(parsed, settings, asked, ios, name)
    stated = [] if not info or not configure else _stated(ios, parsed)
    model: bytes = packed["model"]
    cipher = packed["model_decryption"]
    if cipher in ("", "NONE"):
        cipher = ""
    else:
        model = _decrypted(cipher, model, where)
    return Model(model, ios, where, cipher, stated)


def _stated(ios: LiteNetworkIO, info: dict[str, Any]) -> list[Stated]:
    both = info.get("IO") or {}
    found = []
    for what, items in (("input", ios.inputs), ("output", ios.outputs)):
        for io, item in zip(items, both.get(f"{what}s", []), strict=False):
            layout = io.config_layout
            shape = layout.shapes if item.get("shape") else []
            found.append(Stated(what, io.name, shape, layout.data_type if item.get("dtype") and shape else None))
    return found


def _parse(info: bytes, name: str, cipher: str) -> dict[str, Any]:
    import json

    where = f"packed model {name!r}"
    try:
        # Ciphers pad: what follows the object is no part of it.
        text = info.decode("utf-8", errors="replace")
        parsed, _ = json.JSONDecoder().raw_decode(text[text.find("{") :])
    except (ValueError, RecursionError) as error:
        cause = f"; it was decrypted with {cipher}, whose key may be another one" if cipher else ""
        raise failure(f"{where}: its information is no JSON: {error}{cause}") from None
    if not isinstance(parsed, dict):
        raise failure(f"{where}: its information is no JSON object")
    if parsed.get("name") != name:
        raise failure(f"{where}: its information is for {parsed.get('name')!r}")
    return parsed


def _apply(info: dict[str, Any], settings: Settings, asked: LiteNetworkIO, ios: LiteNetworkIO, name: str) -> None:
    """Let a packed model's information override what the program configured."""
    if not info.get("valid", True):
        return
    take = _Taker(info, f"packed model {name!r}")
    take.check_version()
    take(info, "has_compression", bool, lambda value: setattr(settings, "compressed", value))
    if take.section("device") is not None:
        device = take.section("device")
        take(device, "type", str, lambda value: setattr(settings, "device_type", take.device_type(value)))
        take(device, "device_id", int, lambda value: setattr(settings, "device_id", value))
        take(device, "number_threads", int, lambda value: setattr(settings, "threads", take.threads(value)))
        take(device, "enable_inplace_model", bool, lambda value: setattr(settings, "inplace", value))
        take(device, "use_tensorrt", bool, lambda value: setattr(settings, "tensorrt", value))
    options = take.section("options")
    for option, *_ in LiteOptions._fields_ if options is not None else ():
        take(options, option, int, functools.partial(settings.options.__setitem__, option))
    both = take.section("IO")
    kinds = (("inputs", ios.inputs, asked.inputs), ("outputs", ios.outputs, asked.outputs))
    for kind, items, requested in kinds if both is not None else ():
        listed = both.get(kind, [])
        if not isinstance(listed, list):
            raise take.error(f"IO.{kind} is no list")
        items.extend(take.io(item, requested) for item in listed)


class _Taker:
    """Takes values out of parsed JSON, once they are of the right type."""

    def __init__(self, info: dict[str, Any], where: str) -> None:
        self._info, self._where = info, where

    def error(self, text: str) -> RuntimeError:
        return failure(f"{self._where}: {text}")

    def section(self, name: str) -> Any:
        found = self._info.get(name)
        if found is not None and not isinstance(found, dict):
            raise self.error(f"{name} is no object")
        return found

    def __call__(self, values: Any, name: str, kind: type, use: Callable[[Any], None]) -> None:
        value = values.get(name)
        if value is None:
            return
        # The vendor writes flags as numbers and as booleans.
        if not isinstance(value, int if kind is bool else kind) or (isinstance(value, int) and abs(value) >= 2**31):
            raise self.error(f"{name}: expected {kind.__name__}, got {value!r}")
        use(kind(value))

    def device_type(self, name: str) -> LiteDeviceType:
        try:
            return LiteDeviceType[f"LITE_{name}"]
        except KeyError:
            raise self.error(f"there is no device type {name!r}") from None

    def threads(self, count: int) -> int:
        if not 0 <= count <= MOST_THREADS:
            raise self.error(f"number_threads: expected 0 (leave it) to {MOST_THREADS}, got {count}")
        return max(count, 1)

    def check_version(self) -> None:
        version = self._info.get("version")
        if version is None:
            return
        try:
            found = [int(part) for part in version.split(".")]
        except (AttributeError, ValueError):
            raise self.error(f"version: expected such as {base.version!r}, got {version!r}") from None
        if found > [int(part) for part in base.version.split(".")]:
            base.LOG.warning("%s: it is for version %s of the library, this is %s", self._where, version, base.version)

    def io(self, item: Any, asked: list[LiteIO]) -> LiteIO:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise self.error(f"an input or output without a name: {item!r}")
        wish = next((io for io in reversed(asked) if io.name == item["name"]), LiteIO(item["name"]))
        shape = item.get("shape") or {}
        wanted = item.get("io_type")
        kinds = {"value": LiteIOType.LITE_IO_VALUE, "shape": LiteIOType.LITE_IO_SHAPE}
        kind = wish.io_type if wanted is None else kinds.get(wanted) if isinstance(wanted, str) else None
        if kind is None or not isinstance(shape, dict):
            raise self.error(f"{item['name']!r} is described as {item!r}")
        try:
            extents = [shape[f"dim{axis}"] for axis in range(len(shape))]
            layout = LiteLayout(extents, item.get("dtype")) if extents else wish.config_layout
        except (KeyError, RuntimeError, AssertionError) as error:
            raise self.error(f"the layout of {item['name']!r}: {error}") from None
        return LiteIO(item["name"], bool(item.get("is_host", wish.is_host)), kind, layout)
