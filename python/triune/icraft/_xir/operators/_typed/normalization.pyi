# Written by tools/operator_stubs.py from the tables of normalization.py: change those.
from typing import overload

from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.values import Params, Value

class BatchNorm1d(Operation):
    variance: Params
    mean: Params
    @overload
    def __init__(self, input: Value, variance: Params, mean: Params) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class BatchNorm2d(Operation):
    variance: Params
    mean: Params
    @overload
    def __init__(self, input: Value, variance: Params, mean: Params) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class BatchNorm3d(Operation):
    variance: Params
    mean: Params
    @overload
    def __init__(self, input: Value, variance: Params, mean: Params) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class InstanceNorm1d(Operation):
    eps: float
    gamma: Params | None
    beta: Params | None
    @overload
    def __init__(
        self, input: Value, eps: float = ..., gamma: Params | None = ..., beta: Params | None = ...
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class InstanceNorm2d(Operation):
    eps: float
    gamma: Params | None
    beta: Params | None
    @overload
    def __init__(
        self, input: Value, eps: float = ..., gamma: Params | None = ..., beta: Params | None = ...
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class InstanceNorm3d(Operation):
    eps: float
    gamma: Params | None
    beta: Params | None
    @overload
    def __init__(
        self, input: Value, eps: float = ..., gamma: Params | None = ..., beta: Params | None = ...
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class LayerNorm(Operation):
    axis: list[int]
    eps: float
    gamma: Params | None
    beta: Params | None
    @overload
    def __init__(
        self, input: Value, axis: list[int], eps: float = ..., gamma: Params | None = ..., beta: Params | None = ...
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Normalize(Operation):
    axis: list[int]
    p: float
    eps: float
    @overload
    def __init__(self, input: Value, axis: list[int], p: float = ..., eps: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...
