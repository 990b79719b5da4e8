"""Tensors in another type: one `Cast`, computed as a network's is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triune.icraft._host.backend import HostBackend
from triune.icraft._xrt.check import check_tensor
from triune.icraft._xrt.errors import expect
from triune.icraft._xrt.tensor import Tensor

if TYPE_CHECKING:
    from triune.icraft._xir.types import TensorType

__all__ = ["Cast"]


def Cast(input: Tensor, input_type: TensorType, output_type: TensorType, backend: HostBackend) -> Tensor:
    """Return a tensor in another element type and layout; what quantizes takes its numbers from the types.

    `input_type` is what the tensor's data are, whatever its own type says.

    Raises InternalError if the tensor's shape or stored type is not `input_type`'s, or there is no such conversion.
    """
    expect("Cast", backend, HostBackend, "a HostBackend such as HostBackend.Init()")
    check_tensor("Cast: input", input_type, input)
    return backend._cast(input, input_type, output_type)
