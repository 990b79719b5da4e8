# Written by tools/operator_stubs.py from the tables of network.py: change those.
from collections.abc import Sequence
from typing import overload

from triune.icraft._xir.objects import Concrete, ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import Params, Value

class AlignedUnit(Concrete):
    @overload
    def __init__(self, index: list[int] | int, unit: list[int] | int) -> None: ...
    @overload
    def __init__(self, index: ObjectRef = ..., unit: None = None) -> None: ...
    @property
    def index(self) -> list[int]: ...
    @property
    def unit(self) -> list[int]: ...

class HardOp(Operation):
    instr: list[Params]
    params: list[Params]
    origin_ops_id: list[int]
    device_info: dict[str, int]
    layer_count: int
    sub_hard_ops: list[HardOp]
    @overload
    def __init__(
        self,
        inputs: Sequence[Value],
        instr: list[Params] | Params,
        params: list[Params] | Params,
        origin_ops_id: list[int],
        device_info: dict[str, int],
        layer_count: int = ...,
        sub_hard_ops: list[HardOp] = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Input(Operation):
    @overload
    def __init__(self, *dtypes: TensorType | Sequence[TensorType]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Output(Operation):
    @overload
    def __init__(self, *values: Value | Sequence[Value]) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...
