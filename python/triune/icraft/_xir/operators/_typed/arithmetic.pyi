# Written by tools/operator_stubs.py from the tables of arithmetic.py: change those.
from collections.abc import Sequence
from typing import overload

from triune.icraft._xir.arrays import QuantizedScaleArray
from triune.icraft._xir.enums import RoundingMode
from triune.icraft._xir.immediates import ScalarImm
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.values import Value

class Add(Operation):
    alpha: list[ScalarImm]
    beta: list[ScalarImm]
    cut_scale: QuantizedScaleArray
    @overload
    def __init__(
        self,
        lhs: Value,
        rhs: Value,
        alpha: list[ScalarImm] | list[float] | ScalarImm | float,
        beta: list[ScalarImm] | list[float] | ScalarImm | float,
    ) -> None: ...
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Div(Operation):
    rounding_mode: RoundingMode
    @overload
    def __init__(self, lhs: Value, rhs: Value, rounding_mode: RoundingMode = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class DivideScalar(Operation):
    divisor: float
    rounding_mode: RoundingMode
    @overload
    def __init__(self, input: Value, divisor: float, rounding_mode: RoundingMode = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Einsum(Operation):
    equation: str
    @overload
    def __init__(self, inputs: Sequence[Value], equation: str) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Equal(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Greater(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class GreaterEqual(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Less(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class LessEqual(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Maximum(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Minimum(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Multiply(Operation):
    cut_scale: QuantizedScaleArray
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class NotEqual(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Where(Operation):
    @overload
    def __init__(self, lhs: Value, rhs: Value, condition: Value) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...
