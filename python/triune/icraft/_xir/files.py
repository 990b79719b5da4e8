"""Files of networks: the JSON of what a network is, and the RAW of its parameters.

RAW: 12 bytes of magic, the number of parameters (u32), for each its number (u32) and where its bytes begin (u64), then the
bytes, one after the other; little-endian. The core reads the table. `Network.lazyLoadParamsFromFile` maps the file: it costs
as much as a mapping, and the digest is computed when the first data are touched. `Network.loadParamsFromFile` reads the file
into memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import mmap
import os
import struct
import tempfile
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from triune.icraft._xir.errors import Error, XirWarning, native_errors
from triune.icraft._xir.versions import EMPTY_MD5

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from triune.icraft._xir.network import Network
    from triune.icraft._xir.values import Params

__all__ = ["FileForms"]

_MAGIC = b"\xa5ICRAFT_RAW\xa5"
_ENTRY = struct.Struct("<IQ")
_COUNT = struct.Struct("<I")

_Path = str | os.PathLike[str]


class _Raw:
    """The bytes of a RAW file, in memory or mapped."""

    def __init__(self, data: bytes | bytearray | mmap.mmap, where: str, digest: str | None) -> None:
        """Take the bytes; `digest` is what they should have, to be checked once data are touched, None if not at all."""
        self.data = data
        self.where = where
        # Taken out by whoever checks it.
        self._digests = [] if digest is None else [digest]

    def check(self) -> None:
        """Compute the digest, once, and warn if it is another. Other threads run meanwhile."""
        try:
            expected = self._digests.pop()
        except IndexError:
            return
        if expected:
            found = hashlib.md5(self.data, usedforsecurity=False).hexdigest()
            if found != expected:
                warnings.warn(
                    f"{self.where}: its MD5 is {found}, the network says {expected}: they may not belong together",
                    XirWarning,
                    stacklevel=2,
                )

    def slice(self, offset: int, length: int) -> npt.NDArray[np.uint8]:
        """Return some bytes. Raises Error if the file behind a mapping became shorter."""
        import numpy as np

        if isinstance(self.data, mmap.mmap) and self.data.size() < offset + length:
            raise Error(f"{self.where}: it was cut to {self.data.size()} bytes after it was loaded")
        self.check()
        view = np.frombuffer(self.data, np.uint8, length, offset) if length else np.empty(0, np.uint8)
        view.flags.writeable = False
        return view


class _Slice:
    """The bytes of one `Params` in a RAW file."""

    def __init__(self, raw: _Raw, offset: int, length: int) -> None:
        self._raw, self._offset, self._length = raw, offset, length

    def view(self) -> npt.NDArray[np.uint8]:
        """Return the bytes. Raises Error if the file behind a mapping became shorter."""
        return self._raw.slice(self._offset, self._length)


class FileForms:
    """The part of `Network` that reads and writes files."""

    # ---- reading

    @staticmethod
    def CreateFromJsonFile(file_path: _Path) -> Network:
        """Return the network of a JSON file, without the data of its parameters.

        Raises Error if the file cannot be read, or is no network of a version that is known.
        """
        from triune.icraft._xir.codec import network_of

        with _opened(file_path) as file:
            text = file.read()
        return network_of(text, os.fspath(file_path))

    @staticmethod
    def CreateFromFlatFile(file_path: _Path) -> Network:
        """Raise NotImplementedError: the FlatBuffers form is not read."""
        raise NotImplementedError(
            f"{os.fspath(file_path)}: networks in FlatBuffers form (.fb) are not read; write .json and .raw instead"
        )

    def loadParamsFromFile(self: Network, file_path: _Path, calc_md5: bool = True) -> None:  # type: ignore[misc]
        """Read the data of all parameters into memory. With `calc_md5` warn if the digest is not the network's.

        Raises Error if the file cannot be read, is not the network's size, or has not what the network needs.
        """
        with _opened(file_path) as file:
            size = os.fstat(file.fileno()).st_size
            _check_size(self, size, os.fspath(file_path))
            data = file.read(size)
        if len(data) != size:
            raise Error(f"{os.fspath(file_path)}: {len(data)} bytes of {size} could be read")
        _attach(self, data, os.fspath(file_path), calc_md5, lazy=False)

    def lazyLoadParamsFromFile(self: Network, file_path: _Path, calc_md5: bool = True) -> None:  # type: ignore[misc]
        """Map the file of the parameters: data are read as they are touched.

        With `calc_md5` the digest is computed when the first are, and a warning given if it is not the network's. The file
        has to stay as it is. Raises Error as `loadParamsFromFile` does.
        """
        with _opened(file_path) as file:
            size = os.fstat(file.fileno()).st_size
            _check_size(self, size, os.fspath(file_path))
            if size == 0:
                return
            data = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)
        _attach(self, data, os.fspath(file_path), calc_md5, lazy=True)

    def loadParams(self: Network, stream: BinaryIO | io.BytesIO, calc_md5: bool = True) -> None:  # type: ignore[misc]
        """Read the data of all parameters from a stream, from where it stands, as `loadParamsFromFile` does."""
        data = stream.read()
        _check_size(self, len(data), "the stream")
        _attach(self, data, "the stream", calc_md5, lazy=False)

    # ---- writing

    def dumpJson(self: Network, stream: BinaryIO | io.BytesIO, calc_md5: bool = True) -> None:  # type: ignore[misc]
        """Write the network's JSON to a stream, 4 spaces to a level. With `calc_md5` the digest is computed, or else left empty.

        If no parameters have data, as after `CreateFromJsonFile` alone, size and digest stay what they are.

        Raises Error if some have data and some, that need them, not.
        """
        _measure(self, calc_md5)
        text = json.dumps(self._json(), indent=4, sort_keys=True, ensure_ascii=False, allow_nan=False)
        try:
            stream.write(text.encode())
        except UnicodeEncodeError as error:
            raise Error(f"{self._named()}: a name or tag is no text: {error.object[error.start :][:20]!r}") from None

    def dumpJsonToFile(  # type: ignore[misc]
        self: Network, file_path: _Path, calc_md5: bool = True, validate: bool = True
    ) -> None:
        """Write the network's JSON to a file, as `dumpJson` does; with `validate` only if it is as the rules have it.

        The file is replaced at once, so that nobody sees half of it. Raises Error if the network is not as the rules have
        it, or the file cannot be written.
        """
        if validate:
            self.validate()
        with _replaced(file_path) as file:
            self.dumpJson(file, calc_md5)

    def dumpParams(self: Network, stream: BinaryIO | io.BytesIO) -> None:  # type: ignore[misc]
        """Write the data of the parameters to a stream, in the order of first use; nothing if there are no parameters.

        Raises Error if one has no data, and may not be without.
        """
        for piece in _pieces(self):
            stream.write(piece)

    def dumpParamsToFile(self: Network, file_path: _Path) -> None:  # type: ignore[misc]
        """Write the data of the parameters to a file, which is replaced at once; data that are still in it are safe.

        Raises Error as `dumpParams` does, or if the file cannot be written.
        """
        with _replaced(file_path) as file:
            self.dumpParams(file)

    def dumpFlatToFile(  # type: ignore[misc]
        self: Network, file_path: _Path, calc_md5: bool = True, validate: bool = True
    ) -> None:
        """Raise NotImplementedError: the FlatBuffers form is not written."""
        raise NotImplementedError(
            f"{os.fspath(file_path)}: networks in FlatBuffers form (.fb) are not written; use dumpJsonToFile and dumpParamsToFile"
        )


@contextlib.contextmanager
def _opened(path: _Path) -> Iterator[BinaryIO]:
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise Error(f"{os.fspath(path)}: it cannot be read: {error.strerror}") from None
    with file:
        try:
            yield file
        except OSError as error:
            raise Error(f"{os.fspath(path)}: it cannot be read: {error.strerror}") from None


@contextlib.contextmanager
def _replaced(path: _Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of another when all is written."""
    folder, name = os.path.split(os.fspath(path))
    try:
        handle, beside = tempfile.mkstemp(prefix=f".{name}.", dir=folder or ".")
    except OSError as error:
        raise Error(f"{os.fspath(path)}: it cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        # What a file gets that is simply opened: mkstemp lets nobody else read.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(beside, 0o666 & ~mask)
        os.replace(beside, path)
    except OSError as error:
        raise Error(f"{os.fspath(path)}: it cannot be written: {error.strerror}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)


def _check_size(network: Network, size: int, where: str) -> None:
    if size != network._params_bytes:
        raise Error(
            f"{where}: {size} bytes, {network._named()} says params_bytes {network._params_bytes}: another file's?"
        )


def _attach(network: Network, data: Any, where: str, calc_md5: bool, lazy: bool) -> None:
    """Give each parameter its bytes. Raises Error, and changes nothing, if the file has not what the network needs."""
    raw = _Raw(data, where, network._params_md5 if calc_md5 else None)
    places = _table(data, where)
    sources: list[tuple[Params, _Slice]] = []
    used = len(_MAGIC) + _COUNT.size + _ENTRY.size * len(places) if places else 0
    for params in network._params():
        place = places.pop(params._v_id, None)
        called = f"{where}: {params._called()}"
        if place is None:
            if params._allow_no_data:
                continue
            raise Error(f"{called} is not in it")
        # Parameters without elements begin where the next ones do: the table cannot tell which of them has the bytes.
        offset, length = place
        needed = params.storageBytes()
        if needed not in (0, length):
            raise Error(f"{called} has {length} bytes in it, its type {params.dtype} takes {needed}")
        sources.append((params, _Slice(raw, offset, needed)))
        used += needed
    if places:
        raise Error(f"{where}: it has parameters that {network._named()} has not: {sorted(places)[:5]}")
    if used != len(data):
        raise Error(f"{where}: {len(data)} bytes, the table and the parameters of {network._named()} are {used}")
    if not lazy:
        raw.check()
    for params, source in sources:
        params._source, params._lazy = source, lazy


def _table(data: Any, where: str) -> dict[int, tuple[int, int]]:
    """Return place and length by number."""
    from triune._native import xir_raw_table

    if not len(data):
        return {}
    with native_errors(where):
        entries = xir_raw_table(data)
    return {number: (offset, length) for number, offset, length in entries}


def _pieces(network: Network) -> Iterator[Any]:
    """Yield the RAW file in pieces. Raises Error if data are missing."""
    written: list[tuple[int, Any]] = []
    for params in network._params():
        if params._source is None:
            if params._allow_no_data:
                continue
            raise Error(f"{network._named()}: {params._called()} has no data to write")
        if not 0 <= params._v_id < 1 << 32:
            raise Error(f"{network._named()}: {params._called()}: its number does not fit the file's 32 bits")
        written.append((params._v_id, params._source))
    if not written:
        return
    place = len(_MAGIC) + _COUNT.size + _ENTRY.size * len(written)
    head = bytearray(_MAGIC + _COUNT.pack(len(written)))
    for number, source in written:
        head += _ENTRY.pack(number, place)
        place += source.view().size
    yield head
    for _, source in written:
        yield source.view()


def _measure(network: Network, calc_md5: bool) -> None:
    """Set the network's size and digest of parameters to what would be written."""
    params = network._params()
    if params and all(one._source is None for one in params):
        return
    digest = hashlib.md5(usedforsecurity=False)
    size = 0
    for piece in _pieces(network):
        size += len(piece)
        if calc_md5:
            digest.update(piece)
    network._params_bytes = size
    network._params_md5 = digest.hexdigest() if calc_md5 else EMPTY_MD5 if size == 0 else ""
