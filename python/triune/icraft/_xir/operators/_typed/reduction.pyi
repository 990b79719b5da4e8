# Written by tools/operator_stubs.py from the tables of reduction.py: change those.
from typing import overload

from triune.icraft._xir.immediates import IntImm
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.values import Value

class Argmax(Operation):
    dim: IntImm | None
    keepdim: bool
    @overload
    def __init__(self, input: Value, dim: IntImm | int | None = ..., keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Argmin(Operation):
    dim: IntImm | None
    keepdim: bool
    @overload
    def __init__(self, input: Value, dim: IntImm | int | None = ..., keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Max(Operation):
    dim: IntImm | None
    keepdim: bool
    @overload
    def __init__(self, input: Value, dim: IntImm | int | None = ..., keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Mean(Operation):
    dim: list[int]
    keepdim: bool
    @overload
    def __init__(self, input: Value, dim: list[int] | int, keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, inputs: int, dim: list[int] | int, keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Min(Operation):
    dim: IntImm | None
    keepdim: bool
    @overload
    def __init__(self, input: Value, dim: IntImm | int | None = ..., keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Sum(Operation):
    dim: list[int]
    keepdim: bool
    @overload
    def __init__(self, input: Value, dim: list[int] | int, keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, inputs: int, dim: list[int] | int, keepdim: bool = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...
