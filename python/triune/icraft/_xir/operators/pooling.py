"""Pooling."""

from __future__ import annotations

from typing import Any

from triune.icraft._xir import rules
from triune.icraft._xir.attributes import attr, kinds
from triune.icraft._xir.operation import Operation, Rule
from triune.icraft._xir.operators.convolution import windows
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType

__all__ = ["AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d"]

_PAIRS = {2: "pad_top_bottom pad_left_right", 3: "pad_front_top_bottom pad_back_left_right"}


def _rule(count: int) -> Rule:
    def rule(op: Operation) -> list[TensorType]:
        of = rules.tensor(op, 0)
        shape = of.shape
        for place, side in zip(rules.spatial_axes(of, count), rules.SPATIAL[count], strict=True):
            shape[place] = rules.window(op, shape[place], side, op._attributes[f"pool_{side}"])
        return [rules.like(of, shape)]

    return rule


def _forms(count: int, dilation: bool, tail: str) -> list[str]:
    names = [one.name for one in windows(count, pool=True, dilation=dilation)]
    last = " dilation" if dilation else ""
    forms = [f"input {' '.join(names)} {tail}"]
    if count > 1:
        forms += [f"input pool_size stride {_PAIRS[count]}{last} {tail}", f"input pool_size stride pad{last} {tail}"]
    return forms


def _max_pool(count: int) -> Any:
    return define(
        f"MaxPool{count}d",
        f"The largest of each window over {count} ax{'is' if count == 1 else 'es'}; padding is never the largest.",
        "input",
        windows(count, pool=True),
        _forms(count, True, ""),
        rule=_rule(count),
        aliases=["Maxpool"] if count == 2 else [f"Maxpool{count}d"],
    )


def _avg_pool(count: int) -> Any:
    return define(
        f"AvgPool{count}d",
        f"The average of each window over {count} ax{'is' if count == 1 else 'es'}.",
        "input",
        [
            *windows(count, pool=True, dilation=False),
            attr("count_include_pad", kinds.truth, "Whether padding counts.", False),
            attr("divisor_override", kinds.whole, "What sums are divided by; 0: by how many there are.", 0, 0),
        ],
        _forms(count, False, "/ count_include_pad divisor_override"),
        rule=_rule(count),
        aliases=["Avgpool"] if count == 2 else [f"Avgpool{count}d"],
    )


MaxPool1d = _max_pool(1)
MaxPool2d = _max_pool(2)
MaxPool3d = _max_pool(3)
AvgPool1d = _avg_pool(1)
AvgPool2d = _avg_pool(2)
AvgPool3d = _avg_pool(3)
