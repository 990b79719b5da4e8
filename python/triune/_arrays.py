"""Whatever holds numbers, as the arrays that the core takes: C-contiguous, aligned, in the machine's byte order, of one dtype;
and the arrays in files.
"""

from __future__ import annotations

import math
import os
import zipfile
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from triune._files import UnreadableItem, opened
from triune._masked import MASKED, is_masked
from triune._text import short
from triune.errors import ArgumentError, FileError

__all__ = [
    "array_of_file",
    "arrays_of_file",
    "model_integers",
    "operand",
    "reals_at_border",
    "shapes_of_file",
    "target",
]

_ARCHIVE = b"PK"
"""How a .npz begins, whatever is in it; NumPy tells the kinds apart by this and not by the name."""

_PLAIN = (list, tuple, bool, int, float)
"""What numpy makes arrays of whose dtype nobody chose."""


def operand(what: str, value: Any, dtype: np.dtype[Any], convert: bool) -> npt.NDArray[Any]:
    """Return `value` as a C-contiguous, aligned array of `dtype`: itself where it is one, else a copy.

    It is a numpy array, or has the array interface, the buffer protocol or DLPack in the host's memory, or is a number or a
    nested list of numbers. Elements change their dtype if they are Python's own, or with `convert`, and only where each is
    kept: integers exactly, floats to the nearest one, and floats that are integers as such.

    Raises ArgumentError, which begins with `what`, if it is nothing of this, has another dtype, or loses a value.
    """
    _refuse_masks(what, value)
    array = value if isinstance(value, np.ndarray) else _view(what, value)
    if array.dtype == dtype:
        return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")
    # The order of an element's bytes is part of the layout, not of its type.
    if array.dtype.newbyteorder("=") != dtype:
        if not convert and not isinstance(value, _PLAIN):
            raise ArgumentError(f"{what}: expected dtype {dtype}, got {array.dtype}{_hint(array.dtype, dtype)}")
        return _converted(what, array, dtype)
    return np.array(array, dtype, order="C")


def target(what: str, value: Any) -> npt.NDArray[Any]:
    """Return an array over the memory of `value`, to be written. Raises ArgumentError if it has none, or none that is aligned."""
    if isinstance(value, (*_PLAIN, bytes)):
        raise ArgumentError(f"{what}: expected an array to write to, got {type(value).__name__}")
    _refuse_masks(what, value)
    array = value if isinstance(value, np.ndarray) else _view(what, value)
    if not array.flags.aligned:
        raise ArgumentError(
            f"{what}: expected an array that is aligned to its elements, got one that begins within an element"
        )
    return array


def array_of_file(path: str | os.PathLike[str]) -> npt.NDArray[Any]:
    """Return the array of a .npy file. Raises FileError if it cannot be read, UnreadableItem if it holds none; both name it."""
    (array,) = _loaded(path, archive=False).values()
    return array


def arrays_of_file(path: str | os.PathLike[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a .npz file by name. Raises as `array_of_file` does."""
    return _loaded(path, archive=True)


def shapes_of_file(path: str | os.PathLike[str]) -> dict[str, tuple[int, ...]] | None:
    """Return the shapes of the arrays of a .npz file by name, of the one of a .npy file as ``""``; its elements stay unread.

    None of a file that cannot be read so: reading it whole says why.
    """
    try:
        with opened(path) as file:
            begin = file.read(len(_ARCHIVE))
            file.seek(0)
            if begin != _ARCHIVE:
                return {"": _header(file)[0]}
            shapes = {}
            with zipfile.ZipFile(file) as archive:
                for name in archive.namelist():
                    with archive.open(name) as member:
                        shapes[name.removesuffix(".npy")] = _header(member)[0]
            return shapes
    except Exception:
        # As above, and of later versions, which are of names of fields.
        return None


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read what a .npy file says of its array. Raises ValueError, or KeyError for versions that are of names of fields."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = readers[version](file)
    return shape, dtype


def _loaded(path: str | os.PathLike[str], archive: bool) -> dict[str, npt.NDArray[Any]]:
    try:
        with opened(path) as file:
            begin = file.read(len(_ARCHIVE))
            file.seek(0)
            if not begin:
                raise ValueError("it is empty")
            if archive and begin != _ARCHIVE:
                raise ValueError("it is no archive of arrays, which files named .npz are")
            if not archive:
                if begin == _ARCHIVE:
                    raise ValueError("it is an archive, which files named .npz are")
                _check_length(file)
            found = np.load(file, allow_pickle=False)
            arrays = {"": found} if isinstance(found, np.ndarray) else {name: found[name] for name in found.files}
            for name, array in arrays.items():
                # NumPy gives the bytes of a member that does not begin as arrays do.
                if not isinstance(array, np.ndarray):
                    raise ValueError(short(f"{name!r} is no array"))
            return arrays
    except FileError:
        raise
    except MemoryError as error:
        raise MemoryError(f"{os.fspath(path)}: {error}".rstrip(": ")) from None
    except Exception as error:
        # Whatever unpickling, inflating or parsing a damaged file raises.
        text = " ".join(str(error).split()) or type(error).__name__
        raise UnreadableItem(f"{os.fspath(path)}: not an array file that can be read: {text}") from None


def _check_length(file: BinaryIO) -> None:
    """Raise ValueError if a .npy file states an array of more bytes than it has, for which NumPy would ask for memory."""
    try:
        shape, dtype = _header(file)
    except KeyError:
        # Names of fields are no numbers.
        pass
    else:
        stated = math.prod(shape) * dtype.itemsize
        there = os.fstat(file.fileno()).st_size - file.tell()
        # Objects are pickled, and refused for that; what is in /proc says no size.
        if not dtype.hasobject and there >= 0 and stated > there:
            raise ValueError(f"it states shape {shape} of {dtype}, {stated} bytes, and has {there}")
    file.seek(0)


def _refuse_masks(what: str, value: object) -> None:
    if is_masked(value):
        raise ArgumentError(f"{what}: {MASKED}")


def _view(what: str, value: Any) -> npt.NDArray[Any]:
    if value is None:
        raise ArgumentError(f"{what}: expected an array, got none")
    try:
        if isinstance(value, bytes | bytearray):
            # As text, numpy would take it for a string.
            return np.frombuffer(value, np.uint8)
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            array: npt.NDArray[Any] = np.from_dlpack(value)
        else:
            array = np.asarray(value)
    except Exception as error:
        # Whatever the other library raises, such as for memory of a GPU, or for a tensor that keeps gradients.
        text = str(error).partition("\n")[0]
        raise ArgumentError(f"{what}: {type(value).__name__} gives no array in the host's memory: {text}") from error
    if array.dtype.kind not in "biuf":
        got = type(value).__name__ if array.dtype.kind == "O" else f"dtype {array.dtype}"
        raise ArgumentError(f"{what}: expected an array of numbers, got {got}")
    return array


def _hint(found: np.dtype[Any], wanted: np.dtype[Any]) -> str:
    kinds = found.kind + wanted.kind
    fits = found.kind in "biuf" and kinds not in ("fi", "fu", "fb", "ib", "ub")
    return " (convert=True converts it)" if fits else ""


def _converted(what: str, array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    kind = array.dtype.kind
    if np.can_cast(array.dtype, dtype, "safe") or not array.size:
        return array.astype(dtype, order="C")
    if kind not in "iuf" or dtype.kind not in "iuf":
        raise ArgumentError(f"{what}: expected dtype {dtype}, got {array.dtype}, whose values it does not have")
    with np.errstate(over="ignore", invalid="ignore"):
        result = array.astype(dtype, order="C")
    if dtype.kind == "f":
        lost = np.isinf(result)
        lost &= np.isfinite(array)
        if kind in "iu":
            lost |= _inexact(array, result)
    elif kind == "f":
        # What lies within the limits is converted to what it is without its fraction; the upper one may be no float.
        limits = np.iinfo(dtype)
        lost = ~((array >= float(limits.min)) & (array < float(limits.max + 1)) & (np.trunc(array) == array))
    else:
        limits = np.iinfo(dtype)
        # Python's integers, which numpy compares with its own exactly.
        lost = (array < limits.min) | (array > limits.max)
    if lost.any():
        raise ArgumentError(f"{what}: expected values that {dtype} has, got {array[lost].flat[0]} ({array.dtype})")
    return result


def _inexact(array: npt.NDArray[Any], result: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return which integers are others as floats. Those that a float's digits hold are not looked at one by one."""
    most = 1 << (np.finfo(result.dtype).nmant + 1)
    # Of a number, too, numpy would make no array.
    far = np.asarray((array > most) | (array < -most))
    pairs = zip(result[far].tolist(), array[far].tolist(), strict=True)
    far[far] = [not math.isinf(real) and int(real) != integer for real, integer in pairs]
    return far


def model_integers(array: npt.NDArray[Any], dtype: str) -> npt.NDArray[Any]:
    """Return a card's integers as those of a model's own output of this dtype: without a sign, 128 higher than with one."""
    own = np.dtype(dtype)
    if array.dtype == own:
        return array
    steps = array.astype(np.int32) + (int(np.iinfo(own).min) - int(np.iinfo(array.dtype).min))
    return steps.astype(own)


def reals_at_border(array: npt.NDArray[Any], scale: float, zero_point: int) -> npt.NDArray[np.float32]:
    """Return the reals that a model's input stands for where a card takes int8 with this scale and zero point.

    Reals are that already; integers of 8 bits are those of the card, without a sign 128 higher.
    """
    if array.dtype.kind not in "iu":
        return array.astype(np.float32, copy=False)
    lowest = np.iinfo(array.dtype).min
    steps = array.astype(np.int32) - (lowest + 128) - zero_point
    return steps.astype(np.float32) * np.float32(scale)
