"""Functions of each element: activations and mathematics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from triune.icraft._xir import rules
from triune.icraft._xir.attributes import Attr, attr, kinds
from triune.icraft._xir.errors import Error
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType

__all__ = [
    "ELU",
    "GELU",
    "ACos",
    "ACosh",
    "ASin",
    "ASinh",
    "ATan",
    "ATanh",
    "Abs",
    "ClampScalar",
    "Copy",
    "Cos",
    "Cosh",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Log",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "Neg",
    "PReLU",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Sin",
    "Sinh",
    "Softmax",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Sqrt",
    "Tan",
    "Tanh",
    "Tanhshrink",
]


def _function(name: str, formula: str, **options: Any) -> Any:
    return define(name, f"{formula}, of each element.", "input", rule=rules.same, **options)


def _activation(
    name: str,
    formula: str,
    attrs: Sequence[Attr] = (),
    forms: Sequence[str] = (),
    aliases: Sequence[str] = (),
    rule: Any = rules.same,
) -> Any:
    doc = f"{formula}, of each element."
    return define(name, doc, "input", attrs, forms, rule=rule, activation=True, aliases=aliases)


Abs = _function("Abs", "The absolute value")
ACos = _function("ACos", "The inverse cosine, in radians")
ACosh = _function("ACosh", "The inverse hyperbolic cosine")
ASin = _function("ASin", "The inverse sine, in radians")
ASinh = _function("ASinh", "The inverse hyperbolic sine")
ATan = _function("ATan", "The inverse tangent, in radians")
ATanh = _function("ATanh", "The inverse hyperbolic tangent")
Copy = _function("Copy", "The same value")
Cos = _function("Cos", "The cosine, in radians")
Cosh = _function("Cosh", "The hyperbolic cosine")
Log = _function("Log", "The natural logarithm")
Neg = _function("Neg", "The negative")
Sin = _function("Sin", "The sine, in radians")
Sinh = _function("Sinh", "The hyperbolic sine")
Sqrt = _function("Sqrt", "The square root")
Tan = _function("Tan", "The tangent, in radians")

ClampScalar = define(
    "ClampScalar",
    "The nearest value between min and max, of each element.",
    "input",
    [
        attr("min", kinds.real, "The lowest value.", -math.inf),
        attr("max", kinds.real, "The highest value.", math.inf),
    ],
    rule=rules.same,
)

ReLU = _activation(
    "ReLU",
    "min(x, max_value) where x is not below the threshold, alpha · (x - threshold) elsewhere",
    [
        attr("alpha", kinds.real, "The slope below the threshold.", 0.0),
        attr("max_value", kinds.real, "The highest value.", math.inf),
        attr("threshold", kinds.real, "Where the slope changes.", 0.0),
    ],
    ["input", "input alpha / max_value threshold"],
    ["Relu"],
)
ELU = _activation(
    "ELU",
    "x where it is positive, alpha · (e^x - 1) elsewhere",
    [attr("alpha", kinds.real, "The factor below 0.", 1.0)],
    aliases=["Elu"],
)
GELU = _activation("GELU", "x · Φ(x), with the normal distribution's Φ", aliases=["Gelu"])
Hardshrink = _activation(
    "Hardshrink",
    "x where its absolute value is above lambda_, 0 elsewhere",
    [attr("lambda_", kinds.real, "The bound.", 0.5)],
)
Hardsigmoid = _activation(
    "Hardsigmoid",
    "alpha · x + beta, between 0 and 1",
    [
        attr("alpha", kinds.real, "The slope.", 0.1666666716337204),
        attr("beta", kinds.real, "The value at 0.", 0.5),
    ],
)
Hardswish = _activation("Hardswish", "x · min(max(x + 3, 0), 6) / 6")
Hardtanh = _activation(
    "Hardtanh",
    "The nearest value between min_val and max_val",
    [
        attr("min_val", kinds.real, "The lowest value.", -1.0),
        attr("max_val", kinds.real, "The highest value.", 1.0),
    ],
)
LogSigmoid = _activation("LogSigmoid", "log(1 / (1 + e^-x))")
Mish = _activation("Mish", "x · tanh(log(1 + e^x))")
Sigmoid = _activation("Sigmoid", "1 / (1 + e^-x)")
SiLU = _activation("SiLU", "x / (1 + e^-x)", aliases=["Silu"])
Softplus = _activation(
    "Softplus",
    "log(1 + e^(beta · x)) / beta; x where beta · x is above the threshold",
    [
        attr("beta", kinds.real, "The steepness.", 1.0),
        attr("threshold", kinds.real, "Where it becomes linear.", 20.0),
    ],
)
Softshrink = _activation(
    "Softshrink",
    "x nearer to 0 by lambda_, 0 where it is not farther than that",
    [attr("lambda_", kinds.real, "The bound.", 0.5)],
)
Softsign = _activation("Softsign", "x / (1 + |x|)")
Tanh = _activation("Tanh", "The hyperbolic tangent")
Tanhshrink = _activation("Tanhshrink", "x - tanh(x)")


def _prelu(op: Operation) -> list[TensorType]:
    of, alpha = rules.tensor(op, 0), op._attributes["alpha"]._tensor()
    count = rules.product(alpha._shape)
    channels = of.getDim(rules.channel_axis(of), not of.layout.isDefault())
    if count not in (1, channels) and min(count, channels) >= 0:
        raise Error(f"alpha has {count} elements, the input {channels} channels")
    return rules.same(op)


PReLU = define(
    "PReLU",
    "x where it is positive, alpha · x elsewhere, of each element; alpha is one number or one for each channel.",
    "input",
    [attr("alpha", kinds.params, "The slopes below 0.", None)],
    ["input alpha"],
    rule=_prelu,
    activation=True,
    aliases=["Prelu"],
)


def _along(op: Operation) -> list[TensorType]:
    rules.axis(op._attributes["axis"], len(rules.tensor(op, 0)._shape))
    return rules.same(op)


Softmax = define(
    "Softmax",
    "e^x divided by the sum of all along an axis.",
    "input",
    [attr("axis", kinds.whole, "The axis; negative numbers count from the last.", -1)],
    ["input", "input axis"],
    rule=_along,
    activation=True,
)
LogSoftmax = define(
    "LogSoftmax",
    "The logarithm of e^x divided by the sum of all along an axis.",
    "input",
    [attr("axis", kinds.whole, "The axis; negative numbers count from the last.", -1)],
    rule=_along,
    activation=True,
)
