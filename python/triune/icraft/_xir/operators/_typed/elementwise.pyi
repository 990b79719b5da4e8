# Written by tools/operator_stubs.py from the tables of elementwise.py: change those.
from typing import overload

from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.values import Params, Value

class ELU(Operation):
    alpha: float
    @overload
    def __init__(self, input: Value, alpha: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class GELU(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class ACos(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class ACosh(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class ASin(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class ASinh(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class ATan(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class ATanh(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Abs(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class ClampScalar(Operation):
    min: float
    max: float
    @overload
    def __init__(self, input: Value, min: float = ..., max: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Copy(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Cos(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Cosh(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Hardshrink(Operation):
    lambda_: float
    @overload
    def __init__(self, input: Value, lambda_: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Hardsigmoid(Operation):
    alpha: float
    beta: float
    @overload
    def __init__(self, input: Value, alpha: float = ..., beta: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Hardswish(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Hardtanh(Operation):
    min_val: float
    max_val: float
    @overload
    def __init__(self, input: Value, min_val: float = ..., max_val: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Log(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class LogSigmoid(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class LogSoftmax(Operation):
    axis: int
    @overload
    def __init__(self, input: Value, axis: int = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Mish(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Neg(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class PReLU(Operation):
    alpha: Params
    @overload
    def __init__(self, input: Value, alpha: Params) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class ReLU(Operation):
    alpha: float
    max_value: float
    threshold: float
    @overload
    def __init__(self, input: Value, alpha: float, max_value: float = ..., threshold: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class SiLU(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Sigmoid(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Sin(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Sinh(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Softmax(Operation):
    axis: int
    @overload
    def __init__(self, input: Value, axis: int) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Softplus(Operation):
    beta: float
    threshold: float
    @overload
    def __init__(self, input: Value, beta: float = ..., threshold: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Softshrink(Operation):
    lambda_: float
    @overload
    def __init__(self, input: Value, lambda_: float = ...) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Softsign(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Sqrt(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Tan(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Tanh(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...

class Tanhshrink(Operation):
    def __init__(self, input: ObjectRef = ...) -> None: ...
