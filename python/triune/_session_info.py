"""What a model says of itself and of what it takes and gives. The public names are those of `triune`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Metadata", "ValueInfo"]


class _ValueInfo(NamedTuple):
    name: str
    """Its name, the key in `Session.run`'s feeds."""
    dtype: str
    """The element type by numpy's name, such as ``float32``; ``object`` for strings."""
    shape: tuple[int | str, ...]
    """An int per axis, or a name where the model leaves the extent open; ``("...",)`` where it leaves the number of axes open."""


class ValueInfo(_ValueInfo):
    """An input or output of a model: name, dtype and shape as a tuple, and its kind."""

    kind: str
    """``tensor``, ``strings`` (an array of str), ``sequence`` (a list of arrays of `dtype`), ``optional`` (an array or None),
    ``optional sequence``, ``map`` (a dict of ints or str to ints, floats of `dtype` or str) or ``sequence of maps`` (a list of
    dicts)."""

    def __new__(cls, name: str, dtype: str, shape: tuple[int | str, ...], kind: str = "tensor") -> ValueInfo:
        """Make the tuple."""
        info = super().__new__(cls, name, dtype, shape)
        info.kind = kind
        return info


@dataclass(frozen=True)
class Metadata:
    """What a model file says of itself. What its format has no place for is empty or 0."""

    format: str
    """``ONNX``, ``MegEngine`` or ``XIR``."""
    format_version: int
    """ONNX's IR version."""
    producer: str
    """The program that wrote the file."""
    producer_version: str
    """That program's version."""
    domain: str
    """Whose model it is, as a reversed domain name."""
    version: int
    """The model's own version."""
    description: str
    """A text for people."""
    graph: str
    """Name of the network."""
    opsets: dict[str, int] = field(default_factory=dict)
    """Version of each operator set by its domain, ``""`` for ONNX's own."""
    properties: dict[str, str] = field(default_factory=dict)
    """The writer's own keys and values, ONNX's ``metadata_props``."""

    @property
    def opset(self) -> int | None:
        """The version of ONNX's own operator set; None if the file has none, as MegEngine's and Icraft's have not."""
        return self.opsets.get("", self.opsets.get("ai.onnx"))
