# Written by tools/operator_stubs.py from the tables of movement.py: change those.
from collections.abc import Sequence
from typing import overload

from triune.icraft._xir.enums import Interpolation, Mode, ResizeInterpolation
from triune.icraft._xir.immediates import ScalarImm
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.operators._typed.network import AlignedUnit
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import Value

class AlignAxis(Operation):
    aligned_units: list[AlignedUnit]
    @overload
    def __init__(self, input: Value, aligned_units: list[AlignedUnit]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Cast(Operation):
    target_dtype: TensorType
    @overload
    def __init__(self, input: Value, target_dtype: TensorType) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class ChannelShuffle(Operation):
    groups: int
    @overload
    def __init__(self, input: Value, groups: int) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Concat(Operation):
    axis: int
    @overload
    def __init__(self, inputs: Sequence[Value], axis: int = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Expand(Operation):
    sizes: list[int]
    @overload
    def __init__(self, input: Value, sizes: list[int]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Pad(Operation):
    padding: list[int]
    mode: Mode
    value: ScalarImm
    @overload
    def __init__(self, input: Value, padding: list[int], mode: Mode = ..., value: ScalarImm | float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class PixelShuffle(Operation):
    upscale_factor: int
    @overload
    def __init__(self, input: Value, upscale_factor: int) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class PruneAxis(Operation):
    index: list[int]
    @overload
    def __init__(self, input: Value, index: list[int]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Reshape(Operation):
    shape: list[int]
    layout: Layout
    @overload
    def __init__(self, input: Value, shape: list[int], layout: Layout | str) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Resize(Operation):
    dsize: list[int]
    interpolation: ResizeInterpolation
    @overload
    def __init__(self, input: Value, dsize: list[int], interpolation: ResizeInterpolation = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Roll(Operation):
    shifts: list[int]
    dims: list[int] | None
    @overload
    def __init__(self, input: Value, shift: list[int] | int, dim: list[int] | int | None) -> None: ...
    @overload
    def __init__(self, input: Value, shifts: list[int] | int, dims: list[int] | int | None) -> None: ...
    @overload
    def __init__(self, input: Value, dsize: list[int] | int, interpolation: list[int] | int | None) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Slice(Operation):
    begin: list[int]
    end: list[int]
    stride: list[int]
    @overload
    def __init__(self, input: Value, begin: list[int], end: list[int], stride: list[int]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Split(Operation):
    sections: list[int]
    axis: int
    @overload
    def __init__(self, input: Value, sections: list[int], axis: int = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Squeeze(Operation):
    axis: list[int]
    @overload
    def __init__(self, input: Value, axis: list[int]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Stack(Operation):
    dim: int
    @overload
    def __init__(self, inputs: Sequence[Value], dim: int = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class SwapOrder(Operation):
    order: list[int]
    axis: int
    @overload
    def __init__(self, input: Value, order: list[int], axis: int = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Transpose(Operation):
    dims: list[int]
    layout: Layout
    @overload
    def __init__(self, input: Value, dims: list[int], layout: Layout | str) -> None: ...
    @overload
    def __init__(self, input: Value, dims: list[int]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Unstack(Operation):
    dim: int
    @overload
    def __init__(self, input: Value, dim: int = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Upsample(Operation):
    height: int
    width: int
    interpolation: Interpolation
    align_corners: bool
    @overload
    def __init__(
        self, input: Value, height: int, width: int, interpolation: Interpolation = ..., align_corners: bool = ...
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...
