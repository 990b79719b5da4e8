"""The operators, by family: tables of inputs, attributes, forms of the constructor, and rules for the outputs."""

from __future__ import annotations

from triune.icraft._xir.operators.arithmetic import *  # noqa: F403
from triune.icraft._xir.operators.arithmetic import __all__ as _arithmetic
from triune.icraft._xir.operators.convolution import *  # noqa: F403
from triune.icraft._xir.operators.convolution import __all__ as _convolution
from triune.icraft._xir.operators.elementwise import *  # noqa: F403
from triune.icraft._xir.operators.elementwise import __all__ as _elementwise
from triune.icraft._xir.operators.movement import *  # noqa: F403
from triune.icraft._xir.operators.movement import __all__ as _movement
from triune.icraft._xir.operators.network import *  # noqa: F403
from triune.icraft._xir.operators.network import __all__ as _network
from triune.icraft._xir.operators.normalization import *  # noqa: F403
from triune.icraft._xir.operators.normalization import __all__ as _normalization
from triune.icraft._xir.operators.pooling import *  # noqa: F403
from triune.icraft._xir.operators.pooling import __all__ as _pooling
from triune.icraft._xir.operators.reduction import *  # noqa: F403
from triune.icraft._xir.operators.reduction import __all__ as _reduction

__all__ = [
    *_arithmetic,
    *_convolution,
    *_elementwise,
    *_movement,
    *_network,
    *_normalization,
    *_pooling,
    *_reduction,
]
