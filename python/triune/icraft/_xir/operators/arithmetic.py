"""Functions of two or three tensors, element by element, put together as numpy would."""

from __future__ import annotations

from typing import Any

from triune.icraft._xir import rules
from triune.icraft._xir.attributes import attr, enumeration, kinds
from triune.icraft._xir.enums import RoundingMode
from triune.icraft._xir.errors import Error
from triune.icraft._xir.immediates import FloatImm
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.operators.convolution import cut_scale
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType

__all__ = [
    "Add",
    "Div",
    "DivideScalar",
    "Einsum",
    "Equal",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
    "Maximum",
    "Minimum",
    "Multiply",
    "NotEqual",
    "Where",
]


def _two(op: Operation) -> list[TensorType]:
    return rules.broadcast(op, 2)


def _ones() -> list[FloatImm]:
    return [FloatImm(1.0)]


Add = define(
    "Add",
    "alpha · lhs + beta · rhs, element by element.",
    "lhs rhs",
    [
        attr(
            "alpha", kinds.numbers, "What the left one is multiplied with: one number, or one for each channel.", _ones
        ),
        attr(
            "beta", kinds.numbers, "What the right one is multiplied with: one number, or one for each channel.", _ones
        ),
        cut_scale(),
    ],
    ["lhs rhs alpha beta", "lhs rhs"],
    rule=_two,
)
Multiply = define("Multiply", "lhs · rhs, element by element.", "lhs rhs", [cut_scale()], ["lhs rhs"], rule=_two)


def _rounding() -> Any:
    return attr("rounding_mode", enumeration(RoundingMode), "What is done with the remainder.", RoundingMode.NONE)


Div = define("Div", "lhs / rhs, element by element.", "lhs rhs", [_rounding()], rule=_two)
DivideScalar = define(
    "DivideScalar",
    "Each element divided by one number.",
    "input",
    [attr("divisor", kinds.real, "The number.", 1.0), _rounding()],
    ["input divisor / rounding_mode"],
    rule=rules.same,
)
Maximum = define("Maximum", "The larger one, element by element.", "lhs rhs", rule=_two)
Minimum = define("Minimum", "The smaller one, element by element.", "lhs rhs", rule=_two)


def _comparison(name: str, sign: str) -> Any:
    return define(name, f"Whether lhs {sign} rhs, element by element.", "lhs rhs", rule=rules.boolean(_two))


Equal = _comparison("Equal", "=")
NotEqual = _comparison("NotEqual", "≠")
Greater = _comparison("Greater", ">")
GreaterEqual = _comparison("GreaterEqual", "≥")
Less = _comparison("Less", "<")
LessEqual = _comparison("LessEqual", "≤")


def _where(op: Operation) -> list[TensorType]:
    of = rules.broadcast(op, 3)[0]
    return [rules.like(of, of._shape, element=rules.tensor(op, 0).element_dtype)]


Where = define("Where", "lhs where the condition holds, rhs elsewhere.", "lhs rhs condition", rule=_where)


def _sum(op: Operation) -> list[TensorType]:
    equation = op._attributes["equation"].replace(" ", "")
    taken, arrow, kept = equation.partition("->")
    terms = taken.split(",")
    if "." in equation:
        raise Error(f"equation {equation!r}: an ellipsis has no rule; give the output's type to inferResults()")
    if len(terms) != len(op._inputs) or not all(letter.isalpha() for letter in "".join(terms) + kept):
        raise Error(f"equation {equation!r} does not name the axes of {len(op._inputs)} inputs by letters")
    extents: dict[str, int] = {}
    for index, term in enumerate(terms):
        shape = rules.tensor(op, index)._shape
        if len(shape) != len(term):
            raise Error(f"equation {equation!r}: input {index} of shape {shape} has not the axes {term!r}")
        for letter, extent in zip(term, shape, strict=True):
            if extents.setdefault(letter, extent) not in (extent, 1, -1) and extent not in (1, -1):
                raise Error(f"equation {equation!r}: axis {letter!r} is {extents[letter]} and {extent}")
            extents[letter] = max(extents[letter], extent)
    if not arrow:
        kept = "".join(sorted(letter for letter in extents if taken.count(letter) == 1))
    if len(set(kept)) != len(kept) or not set(kept) <= extents.keys():
        raise Error(f"equation {equation!r}: the result {kept!r} names an axis twice, or one that is not there")
    of = rules.tensor(op, 0)
    return [rules.like(of, [extents[letter] for letter in kept], Layout.Default(len(kept)))]


Einsum = define(
    "Einsum",
    "A sum of products over named axes.",
    "inputs*",
    [attr("equation", kinds.text, "The axes of the inputs and of the result, such as ``bij,bjk->bik``.", "")],
    ["inputs* equation"],
    rule=_sum,
)
