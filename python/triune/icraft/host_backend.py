"""The vendor's module `host_backend`: the backend that computes on the host, and functions round it.

Names, signatures and error classes are the vendor's; docs/icraft.md says what differs.
"""

from __future__ import annotations

from triune.icraft._host.backend import HostBackend
from triune.icraft._host.cast import Cast
from triune.icraft._host.cuda import CudaDevice, CudaMemRegion
from triune.icraft._host.files import DecodeWithDecoder, Ftmp2Tensor
from triune.icraft._host.image import Image2Tensor
from triune.icraft._xrt.device import HostDevice as HostDevice  # Programs take it from here, too.

__all__ = [
    "Cast",
    "CudaDevice",
    "CudaMemRegion",
    "DecodeWithDecoder",
    "Ftmp2Tensor",
    "HostBackend",
    "Image2Tensor",
]
