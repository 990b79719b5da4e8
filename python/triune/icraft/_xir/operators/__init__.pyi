# Written by tools/operator_stubs.py: the families' stubs put together.
from triune.icraft._xir.operators._typed.arithmetic import *  # noqa: F403
from triune.icraft._xir.operators._typed.convolution import *  # noqa: F403
from triune.icraft._xir.operators._typed.elementwise import *  # noqa: F403
from triune.icraft._xir.operators._typed.movement import *  # noqa: F403
from triune.icraft._xir.operators._typed.network import *  # noqa: F403
from triune.icraft._xir.operators._typed.normalization import *  # noqa: F403
from triune.icraft._xir.operators._typed.pooling import *  # noqa: F403
from triune.icraft._xir.operators._typed.reduction import *  # noqa: F403
