"""What belongs to no network: `LiteGlobal`, and the decorator of decryptions."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import SupportsIndex

from triune import _fork
from triune._files import MODEL_LIMIT, opened, read, write_bytes
from triune.errors import FileError
from triune.megenginelite import _arguments, _ciphers, _devices
from triune.megenginelite._ciphers import Function, LiteDecryptionFunc, decryption_func
from triune.megenginelite._errors import failure
from triune.megenginelite.base import LOG
from triune.megenginelite.struct import LiteBackend, LiteDeviceType

__all__ = ["LiteDecryptionFunc", "LiteGlobal", "decryption_func"]

Address = ctypes.c_void_p | int

_LOCK = threading.RLock()
_fork.keep_free(_LOCK)
# Device type -> virtual address -> physical address and length.
_PAIRS: dict[LiteDeviceType, dict[int, tuple[int, int]]] = {}
# What a fast-run cache holds; its categories are counted in its first four bytes.
_EMPTY_CACHE = bytes(4)
# How shared libraries begin: ELF, and Mach-O for one architecture or several.
_LIBRARIES = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe")
_persistent_cache = _EMPTY_CACHE
_tensorrt_cache: Path | None = None


class LiteGlobal:
    """Settings of the whole process, all static."""

    @staticmethod
    def register_decryption_and_key(
        decryption_name: str, decryption_func: Function, key: Iterable[SupportsIndex]
    ) -> None:
        """Add a decryption: its name, a function that `decryption_func` decorated, and its key, bytes or ints.

        Raises RuntimeError if there is one of that name.
        """
        _ciphers.register(decryption_name, decryption_func, key)

    @staticmethod
    def update_decryption_key(decryption_name: str, key: Iterable[SupportsIndex]) -> None:
        """Change the key of a decryption: ``AES_default`` has 32 bytes, ``RC4_default`` and ``SIMPLE_FAST_RC4_default`` 16.

        An empty key leaves it as it is. Raises RuntimeError if there is no such decryption, or the key is not of its size.
        """
        _ciphers.update(decryption_name, key)

    @staticmethod
    def set_loader_lib_path(path: str | os.PathLike[str]) -> None:
        """Accept the loader library of third-party hardware, with a warning in the log: it is not loaded.

        What such a library runs is machine code for its chip. A model that holds some is refused by `load`, which names the
        operator; all others run without the library.

        Raises RuntimeError if there is no such file, or it is no library.
        """
        name = _arguments.path("set_loader_lib_path", path)
        try:
            with opened(name) as file:
                start = file.read(4)
        except FileError as error:
            raise FileError(f"set_loader_lib_path: {error}") from None
        if start not in _LIBRARIES:
            raise failure(f"set_loader_lib_path: {name!r} is no shared library")
        LOG.warning(
            "set_loader_lib_path: %s is not loaded; machine code for third-party hardware does not run here, and models "
            "that hold some are refused",
            name,
        )

    @staticmethod
    def set_persistent_cache(path: str | os.PathLike[str], always_sync: bool = False) -> None:
        """Accept the fast-run cache of the vendor's library; a file that is missing is none.

        It has no effect: there is one algorithm for each operator and shape, and no search. Its content is kept for
        `dump_persistent_cache`.

        Raises RuntimeError if the file cannot be read.
        """
        global _persistent_cache
        name = _arguments.path("set_persistent_cache", path)
        try:
            _persistent_cache = read(name, MODEL_LIMIT) if os.path.lexists(name) else _EMPTY_CACHE
        except FileError as error:
            raise FileError(f"set_persistent_cache: {error}") from None
        LOG.info("set_persistent_cache: no effect, there is no search among algorithms")

    @staticmethod
    def dump_persistent_cache(path: str | os.PathLike[str]) -> None:
        """Write the fast-run cache that was set, or an empty one, in the vendor's format.

        Raises RuntimeError if the file cannot be written.
        """
        try:
            write_bytes(_arguments.path("dump_persistent_cache", path), _persistent_cache)
        except FileError as error:
            raise FileError(f"dump_persistent_cache: {error}") from None

    @staticmethod
    def set_tensorrt_cache(path: str | os.PathLike[str]) -> None:
        """Name the file of the TensorRT cache. It has no effect: there is no TensorRT."""
        global _tensorrt_cache
        _tensorrt_cache = Path(_arguments.path("set_tensorrt_cache", path))
        LOG.info("set_tensorrt_cache: no effect, there is no TensorRT")

    @staticmethod
    def dump_tensorrt_cache() -> None:
        """Write the TensorRT cache: the file that `set_tensorrt_cache` named, which stays as it is, or is made empty.

        Raises RuntimeError if no file is named, or it cannot be written.
        """
        if _tensorrt_cache is None:
            raise failure("dump_tensorrt_cache: call set_tensorrt_cache first, to name a file")
        try:
            _tensorrt_cache.touch()
        except OSError as error:
            raise failure(f"dump_tensorrt_cache: {error}") from None

    @staticmethod
    def get_device_count(device_type: LiteDeviceType | int) -> int:
        """Return the number of devices of a type: of the host, its CPUs; of the others, how many are simulated.

        Raises RuntimeError if there is no such type.
        """
        return _devices.count(_devices.device_type(device_type))

    @staticmethod
    def try_coalesce_all_free_memory() -> None:
        """Give memory that nobody uses back to the system, where the C library can."""
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

    @staticmethod
    def register_memory_pair(
        vir_ptr: Address,
        phy_ptr: Address,
        length: int,
        device: LiteDeviceType | int,
        backend: LiteBackend | int = LiteBackend.LITE_DEFAULT,
    ) -> None:
        """Note that `length` bytes at a virtual address lie at a physical one, on devices of a type, the host included.

        Raises RuntimeError if an address is null, or the bytes overlap those of another pair.
        """
        kind = _place(device, backend)
        virtual, physical = _address("vir_ptr", vir_ptr), _address("phy_ptr", phy_ptr)
        size = _arguments.integer("register_memory_pair: length", length)
        if size <= 0:
            raise failure(f"register_memory_pair: expected a length of at least 1, got {size}")
        with _LOCK:
            pairs = _PAIRS.setdefault(kind, {})
            for start, (_, extent) in pairs.items():
                if virtual < start + extent and start < virtual + size and start != virtual:
                    raise failure(f"register_memory_pair: {virtual:#x} overlaps the pair at {start:#x}")
            pairs[virtual] = (physical, size)

    @staticmethod
    def clear_memory_pair(
        vir_ptr: Address,
        phy_ptr: Address,
        device: LiteDeviceType | int,
        backend: LiteBackend | int = LiteBackend.LITE_DEFAULT,
    ) -> None:
        """Forget a pair of addresses.

        Raises RuntimeError if there is no such pair.
        """
        kind = _place(device, backend)
        virtual, physical = _address("vir_ptr", vir_ptr), _address("phy_ptr", phy_ptr)
        with _LOCK:
            pairs = _PAIRS.get(kind, {})
            if pairs.get(virtual, (None, 0))[0] != physical:
                raise failure(f"clear_memory_pair: there is no pair {virtual:#x}, {physical:#x} on {kind.name}")
            del pairs[virtual]

    @staticmethod
    def lookup_physic_ptr(
        vir_ptr: Address, device: LiteDeviceType | int, backend: LiteBackend | int = LiteBackend.LITE_DEFAULT
    ) -> ctypes.c_void_p:
        """Return the physical address of a virtual one, which may lie anywhere in the bytes of a pair.

        Raises RuntimeError if it lies in no pair.
        """
        kind = _place(device, backend)
        virtual = _address("vir_ptr", vir_ptr)
        with _LOCK:
            for start, (physical, size) in _PAIRS.get(kind, {}).items():
                if start <= virtual < start + size:
                    return ctypes.c_void_p(physical + virtual - start)
        raise failure(f"lookup_physic_ptr: {virtual:#x} is in no registered pair on {kind.name}")


def _place(device: LiteDeviceType | int, backend: LiteBackend | int) -> LiteDeviceType:
    if backend != LiteBackend.LITE_DEFAULT:
        raise failure(f"backend: expected LITE_DEFAULT, got {backend!r}")
    return _devices.device_type(device)


def _address(argument: str, value: Address) -> int:
    address = value.value if isinstance(value, ctypes.c_void_p) else value
    if not isinstance(address, int) or address <= 0:
        raise failure(f"{argument}: expected an address, got {value!r}")
    return address
