"""Files of networks: the JSON of what a network is, and the RAW of its parameters.

RAW: 12 bytes of magic, the number of parameters (u32), for each its number (u32) and where its bytes begin (u64), then the
bytes, one after the other; little-endian. The core reads the table. `Network.lazyLoadParamsFromFile` reads that alone: data
are read as they are touched, and the digest is computed when the first are. Nothing is mapped, as a mapped file that somebody
shortens ends the process. `Network.loadParamsFromFile` reads the file into memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import struct
import warnings
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from triune import _native
from triune._files import DATA_LIMIT, TEXT_LIMIT, open_input, opened, read, read_at, replaced
from triune._kinds import FLAT, ICRAFT, UNKNOWN, kind_of_bytes
from triune.errors import FileError
from triune.icraft._xir.conversions import bind_members
from triune.icraft._xir.errors import Error, XirWarning, native_errors
from triune.icraft._xir.versions import EMPTY_MD5

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from triune.icraft._xir.network import Network
    from triune.icraft._xir.values import Params

__all__ = ["FileForms", "Stored", "stored"]

_MAGIC = b"\xa5ICRAFT_RAW\xa5"
_ENTRY = struct.Struct("<IQ")
_COUNT = struct.Struct("<I")


_PIECE = 1 << 20
"""Bytes that a digest of a file is computed from at once."""


class Stored:
    """The bytes of an open file, read when they are asked for."""

    def __init__(self, descriptor: int) -> None:
        """Take over the descriptor of a plain file, which is closed when nobody has this any more."""
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._state = self._now()

    def _now(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def __len__(self) -> int:
        """Return how many bytes there were when the file was opened."""
        return self._state[0]

    def read(self, offset: int, length: int) -> npt.NDArray[np.uint8]:
        """Return some bytes. Raises OSError if the file was changed since it was opened."""
        import numpy as np

        data = np.empty(length, np.uint8)
        view, filled = data.data, 0
        while filled < length:
            count = read_at(self._descriptor, view[filled:], offset + filled)
            if not count:
                break
            filled += count
        found = self._now()
        if filled < length or found != self._state:
            if found[0] < len(self):
                raise OSError(f"it was cut to {found[0]} bytes after it was loaded")
            raise OSError("it was changed after it was loaded")
        return data

    def pieces(self, start: int = 0) -> Iterator[memoryview]:
        """Yield all bytes from `start` on. Raises OSError as `read` does."""
        for offset in range(start, len(self), _PIECE):
            yield self.read(offset, min(_PIECE, len(self) - offset)).data


class _Raw:
    """The bytes of a RAW file, in memory or still in the file."""

    def __init__(self, data: bytes | bytearray | Stored, where: str, digest: str | None) -> None:
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
            digest = hashlib.md5(usedforsecurity=False)
            for piece in self.data.pieces() if isinstance(self.data, Stored) else [self.data]:
                digest.update(piece)
            found = digest.hexdigest()
            if found != expected:
                warnings.warn(
                    f"{self.where}: its MD5 is {found}, the network says {expected}: they may not belong together",
                    XirWarning,
                    stacklevel=2,
                )

    def slice(self, offset: int, length: int) -> npt.NDArray[np.uint8]:
        """Return some bytes. Raises Error if they are still in the file, and that was changed."""
        import numpy as np

        try:
            self.check()
            if isinstance(self.data, Stored):
                view = self.data.read(offset, length)
            else:
                view = np.frombuffer(self.data, np.uint8, length, offset) if length else np.empty(0, np.uint8)
        except OSError as error:
            raise Error(f"{self.where}: {error.strerror or error}") from None
        view.flags.writeable = False
        return view


class _Slice:
    """The bytes of one `Params` in a RAW file."""

    def __init__(self, raw: _Raw, offset: int, length: int) -> None:
        self._raw, self._offset, self._length = raw, offset, length
        self._read: weakref.ref[npt.NDArray[np.uint8]] | None = None

    def view(self) -> npt.NDArray[np.uint8]:
        """Return the bytes; those that somebody still has are not read again. Raises Error as `_Raw.slice` does."""
        view = self._read() if self._read is not None else None
        if view is None:
            view = self._raw.slice(self._offset, self._length)
            self._read = weakref.ref(view)
        return view


@bind_members
class FileForms:
    """The part of `Network` that reads and writes files."""

    # ---- reading

    @staticmethod
    def CreateFromJsonFile(file_path: str | os.PathLike[str]) -> Network:
        """Return the network of a JSON file, without the data of its parameters.

        Raises Error if the file cannot be read, or is no network of a version that is known.

        Examples:
            >>> import triune
            >>> from triune.icraft import xir
            >>> from triune.models import DIGITS_INT8
            >>> package = triune.compile(DIGITS_INT8, target="zg330", format="icraft", output="networks")
            >>> network = xir.Network.CreateFromJsonFile("networks/digits_int8_ZG.json")
            >>> network.loadParamsFromFile("networks/digits_int8_ZG.raw")
            >>> network.name, network.outputs()[0].tensorType().shape
            ('digits_int8', [1, 10])
        """
        from triune.icraft._xir.codec import network_of

        with _errors():
            text = read(file_path, TEXT_LIMIT)
        return network_of(text, os.fspath(file_path))

    @staticmethod
    def CreateFromFlatFile(file_path: str | os.PathLike[str]) -> Network:
        """Return the network of a FlatBuffers file (`.fb`), with the data of its parameters.

        The file holds network and parameters, which stay in memory; a file that was written before its parameters were
        loaded has none. Raises Error if the file cannot be read, or is no network of a version that is known.

        Examples:
            >>> import triune
            >>> from triune.icraft import xir
            >>> from triune.models import DIGITS_INT8
            >>> package = triune.compile(DIGITS_INT8, target="zg330", format="icraft", output="flat")
            >>> network = xir.Network.CreateFromJsonFile("flat/digits_int8_ZG.json")
            >>> network.loadParamsFromFile("flat/digits_int8_ZG.raw")
            >>> network.dumpFlatToFile("flat/digits_int8_ZG.fb")
            >>> xir.Network.CreateFromFlatFile("flat/digits_int8_ZG.fb") == network
            True
        """
        from triune.icraft._xir.codec import network_of

        where = os.fspath(file_path)
        with _errors():
            data = read(file_path, DATA_LIMIT)
        try:
            text, places = _native.xir_read_flat(data)
        except _native.Error as error:
            kind = kind_of_bytes(data[:4096])
            if kind is ICRAFT:
                raise Error(f"{where}: it is a network in JSON: CreateFromJsonFile reads it") from None
            if kind not in (FLAT, UNKNOWN):
                cure = kind.cure.format(path=where)
                raise Error(f"{where}: expected a network in FlatBuffers form, got {kind.what}: {cure}") from None
            raise Error(f"{where}: {error}") from None
        network = network_of(text, where)
        raw = _Raw(data, where, None)
        for params in network._params():
            if params._v_id in places:
                params._source, params._lazy = _Slice(raw, *places[params._v_id]), False
        return network

    def loadParamsFromFile(self: Network, file_path: str | os.PathLike[str], calc_md5: bool = True) -> None:  # type: ignore[misc]
        """Read the data of all parameters into memory. With `calc_md5` warn if the digest is not the network's.

        Raises Error if the file cannot be read, is not the network's size, or has not what the network needs.
        """
        with _errors(), opened(file_path) as file:
            size = os.fstat(file.fileno()).st_size
            _check_size(self, size, os.fspath(file_path))
            data = file.read(size)
        if len(data) != size:
            raise Error(f"{os.fspath(file_path)}: {len(data)} bytes of {size} could be read")
        _attach(self, data, os.fspath(file_path), calc_md5, lazy=False)

    def lazyLoadParamsFromFile(self: Network, file_path: str | os.PathLike[str], calc_md5: bool = True) -> None:  # type: ignore[misc]
        """Open the file of the parameters: data are read as they are touched, and let go of when nobody has them.

        With `calc_md5` the digest is computed when the first are, and a warning given if it is not the network's. The file
        has to stay as it is: data of one that was changed are refused with an Error. Another file under its name does no harm.
        Raises Error as `loadParamsFromFile` does.
        """
        with _errors():
            data = stored(file_path)
        _check_size(self, len(data), os.fspath(file_path))
        _attach(self, data, os.fspath(file_path), calc_md5, lazy=True)

    def loadParams(self: Network, stream: BinaryIO | io.BytesIO, calc_md5: bool = True) -> None:  # type: ignore[misc]
        """Read the data of all parameters from a binary stream, from where it stands to its end, as `loadParamsFromFile`
        does.

        Raises Error if that is not the network's size (`params_bytes`), or has not what the network needs.
        """
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
        stream.write(_encoded(self, text))

    def dumpJsonToFile(  # type: ignore[misc]
        self: Network, file_path: str | os.PathLike[str], calc_md5: bool = True, validate: bool = True
    ) -> None:
        """Write the network's JSON to a file, as `dumpJson` does; with `validate` only if it is as the rules have it.

        The file is replaced at once, so that nobody sees half of it. Raises Error if the network is not as the rules have
        it, or the file cannot be written.
        """
        if validate:
            self.validate()
        with _errors(), replaced(file_path) as file:
            self.dumpJson(file, calc_md5)

    def dumpParams(self: Network, stream: BinaryIO | io.BytesIO) -> None:  # type: ignore[misc]
        """Write the data of the parameters to a stream, in the order of first use; nothing if there are no parameters.

        Raises Error if one has no data, and may not be without.
        """
        for piece in _pieces(self):
            stream.write(piece)

    def dumpParamsToFile(self: Network, file_path: str | os.PathLike[str]) -> None:  # type: ignore[misc]
        """Write the data of the parameters to a file, which is replaced at once; data that are still in it are safe.

        Raises Error as `dumpParams` does, or if the file cannot be written.
        """
        with _errors(), replaced(file_path) as file:
            self.dumpParams(file)

    def dumpFlatToFile(  # type: ignore[misc]
        self: Network, file_path: str | os.PathLike[str], calc_md5: bool = True, validate: bool = True
    ) -> None:
        """Write network and parameters to one FlatBuffers file, which is replaced at once.

        With `calc_md5` the digest of the parameters is computed, or else left empty; with `validate` only a network that is
        as the rules have it is written. If no parameters have data, the file has none.

        Raises Error if the network is not as the rules have it, if some parameters have data and some, that need them, not,
        if the form cannot hold the network (2 GiB are the most, and attributes that the vendor's classes have), or if the
        file cannot be written.
        """
        if validate:
            self.validate()
        _measure(self, calc_md5)
        text = json.dumps(self._json(), ensure_ascii=False, allow_nan=False)
        data = {params._v_id: params._source.view().data for params in self._params() if params._source is not None}
        with native_errors(self._named()):
            made = _native.xir_write_flat(_encoded(self, text), data)
        with _errors(), replaced(file_path) as file:
            file.write(made)


def stored(path: str | os.PathLike[str]) -> Stored:
    """Open a plain file to be read as its bytes are asked for. Raises FileError if it cannot be."""
    return Stored(open_input(path, DATA_LIMIT))


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    """Raise what is wrong with a file as `Error`."""
    try:
        yield
    except FileError as error:
        raise Error(str(error)) from None


def _encoded(network: Network, text: str) -> bytes:
    """Return a text's bytes. Raises Error if it is none."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise Error(f"{network._named()}: a name or tag is no text: {error.object[error.start :][:20]!r}") from None


def _check_size(network: Network, size: int, where: str) -> None:
    if size != network._params_bytes:
        raise Error(
            f"{where}: {size} bytes, {network._named()} says params_bytes {network._params_bytes}: another file's?"
        )


def _attach(network: Network, data: Any, where: str, calc_md5: bool, lazy: bool) -> None:
    """Give each parameter its bytes. Raises Error, and changes nothing, if the file has not what the network needs."""
    raw = _Raw(data, where, network._params_md5 if calc_md5 else None)
    places = _table(data, where)
    entries = {number: entry for entry, number in enumerate(places)}
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
        params._source, params._lazy, params._entry = source, lazy, entries[params._v_id]


def _table(data: Any, where: str) -> dict[int, tuple[int, int]]:
    """Return place and length by number."""
    if not len(data):
        return {}
    with native_errors(where):
        if isinstance(data, Stored):
            try:
                first = len(_MAGIC) + _COUNT.size
                start = data.read(0, min(len(data), first)).data
                count = _COUNT.unpack_from(start, len(_MAGIC))[0] if len(start) == first else 0
                head = data.read(0, min(len(data), first + _ENTRY.size * count)).data
            except OSError as error:
                raise Error(f"{where}: {error.strerror or error}") from None
            entries = _native.xir_raw_table(head, len(data))
        else:
            entries = _native.xir_raw_table(data)
    return {number: (offset, length) for number, offset, length in entries}


def _pieces(network: Network) -> Iterator[Any]:
    """Yield the RAW file in pieces, in the order of the one that was read. Raises Error if data are missing."""
    written: list[tuple[int, Any]] = []
    for params in sorted(network._params(), key=lambda one: one._entry):
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
