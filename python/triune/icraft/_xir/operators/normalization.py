"""Normalization."""

from __future__ import annotations

from typing import Any

from triune.icraft._xir import rules
from triune.icraft._xir.attributes import Attr, attr, kinds
from triune.icraft._xir.errors import Error
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.table import define
from triune.icraft._xir.types import TensorType
from triune.icraft._xir.values import Params

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "Normalize",
]


def _per_channel(op: Operation) -> list[TensorType]:
    of = rules.tensor(op, 0)
    channels = of.getDim(rules.channel_axis(of), not of.layout.isDefault())
    for name, params in op._attributes.items():
        if not isinstance(params, Params):
            continue
        count = rules.product(params._tensor()._shape)
        if count not in (1, channels) and min(count, channels) >= 0:
            raise Error(f"{name} has {count} elements, the input {channels} channels")
    return rules.same(op)


def _affine() -> list[Attr]:
    return [
        attr("eps", kinds.real, "What is added to the variance, so that it is not 0.", 1e-5),
        attr("gamma", kinds.maybe_params, "What the result is multiplied with, if anything.", None),
        attr("beta", kinds.maybe_params, "What is added then, if anything.", None),
    ]


def _batch_norm(count: int) -> Any:
    return define(
        f"BatchNorm{count}d",
        f"x · variance + mean, one of each for a channel, over {count} ax{'is' if count == 1 else 'es'}: the statistics of "
        "training, folded into a factor and a summand.",
        "input",
        [
            attr("variance", kinds.params, "The factors.", None),
            attr("mean", kinds.params, "The summands.", None),
        ],
        ["input variance mean"],
        rule=_per_channel,
        aliases=["Batchnorm"] if count == 2 else [f"Batchnorm{count}d"],
    )


BatchNorm1d = _batch_norm(1)
BatchNorm2d = _batch_norm(2)
BatchNorm3d = _batch_norm(3)


def _instance_norm(count: int) -> Any:
    return define(
        f"InstanceNorm{count}d",
        f"Each channel with an average of 0 and a variance of 1 over its {count} ax{'is' if count == 1 else 'es'}.",
        "input",
        _affine(),
        rule=_per_channel,
    )


InstanceNorm1d = _instance_norm(1)
InstanceNorm2d = _instance_norm(2)
InstanceNorm3d = _instance_norm(3)


def _along(op: Operation) -> list[TensorType]:
    rules.normal(op._attributes["axis"], len(rules.tensor(op, 0)._shape))
    return rules.same(op)


LayerNorm = define(
    "LayerNorm",
    "An average of 0 and a variance of 1 over some axes.",
    "input",
    [attr("axis", kinds.wholes, "The axes; negative numbers count from the last.", list), *_affine()],
    ["input axis / eps gamma beta"],
    rule=_along,
    aliases=["Layernorm"],
)
Normalize = define(
    "Normalize",
    "Each element divided by the norm over some axes.",
    "input",
    [
        attr("axis", kinds.wholes, "The axes; negative numbers count from the last.", list),
        attr("p", kinds.real, "The exponent of the norm.", 2.0),
        attr("eps", kinds.real, "The smallest norm to divide by.", 1e-12),
    ],
    ["input axis / p eps"],
    rule=_along,
)
