"""Tensors of files: raw dumps, and what a user's decoder makes of a file."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from triune._files import opened
from triune.errors import FileError
from triune.icraft._xir.conversions import bound
from triune.icraft._xrt.elements import described
from triune.icraft._xrt.errors import FILE, LOAD, TYPE, NotSupported, failure
from triune.icraft._xrt.tensor import Tensor

if TYPE_CHECKING:
    from triune.icraft._xir.types import TensorType
    from triune.icraft._xir.values import Value

__all__ = ["DecodeWithDecoder", "Ftmp2Tensor"]


@bound
def Ftmp2Tensor(ftmp_path: str | os.PathLike[str], value: Value) -> Tensor:
    """Read a file of raw elements, such as `Session.setDumpOutputs` writes, as a tensor of a value's type.

    A file of another size gives a warning; what is missing is zero, what is too much is left out.

    Raises InternalError if the file cannot be read.
    """
    tensor = Tensor(value.tensorType())
    size = tensor._bytes()
    try:
        if not os.path.lexists(ftmp_path):
            raise failure(FILE, f"Ftmp2Tensor: there is no file {ftmp_path}")
        with opened(ftmp_path) as file:
            there = os.fstat(file.fileno()).st_size
            data = file.read(size)
    except FileError as error:
        raise failure(LOAD, f"Ftmp2Tensor: {error}") from None
    if there != size:
        warnings.warn(
            f"Ftmp2Tensor: {ftmp_path} has {there} bytes, value {value.v_id} of {described(value.tensorType())} takes {size}",
            stacklevel=2,
        )
    whole = np.zeros(size, np.uint8)
    whole[: len(data)] = np.frombuffer(data, np.uint8)
    tensor.copyData(whole)
    return tensor


@bound
def DecodeWithDecoder(
    dll_path: str | os.PathLike[str], file_path: str | os.PathLike[str], data_type: Sequence[TensorType]
) -> list[Tensor]:
    """Read a file with a decoder of the user's, a library for the vendor's C++ interface.

    Raises InternalError if the library cannot be loaded, or is no decoder; NotSupported (a NotImplementedError) if it is
    one: what it makes and takes are C++ objects of the vendor's runtime, which only a program linked with that can hold.
    """
    try:
        library = ctypes.CDLL(os.fspath(dll_path))
    except OSError as error:
        raise failure(LOAD, f"DecodeWithDecoder: {dll_path} cannot be loaded: {error}") from None
    if not hasattr(library, "GetCustomDecoder"):
        raise failure(TYPE, f"DecodeWithDecoder: {dll_path} has no function GetCustomDecoder, so it is no decoder")
    raise NotSupported(
        f"DecodeWithDecoder: {dll_path} returns a C++ CustomDecoder, whose decode() makes tensors of the vendor's runtime; "
        f"there is no C interface to call it for {file_path}. Decode in Python and make Tensor(array, type)"
    )
