"""The vendor's CUDA device, by name: there is none."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from triune.icraft._xrt.device import Device
from triune.icraft._xrt.errors import DEVICE, NotSupported
from triune.icraft._xrt.memory import MemRegion

__all__ = ["CudaDevice", "CudaMemRegion"]


def _none() -> NoReturn:
    raise NotSupported(f"[{DEVICE}] there is no CUDA device: HostDevice.Default() computes on the processor")


class CudaDevice(Device):
    """The vendor's device for GPUs. Programs that import it run; one that asks for it is told that there is none."""

    type_key: ClassVar[str] = "icraft::xrt::CudaDeviceNode"
    _null_by_default = False

    def __init__(self) -> None:
        """Raise NotSupported."""
        _none()

    @staticmethod
    def Default() -> CudaDevice:
        """Raise NotSupported."""
        _none()

    @staticmethod
    def MemRegion() -> CudaMemRegion:
        """Raise NotSupported."""
        _none()


class CudaMemRegion(MemRegion):
    """The memory of the vendor's device for GPUs."""

    type_key: ClassVar[str] = "icraft::xrt::CudaMemRegionNode"
    _null_by_default = False

    def __init__(self) -> None:
        """Raise NotSupported."""
        _none()
