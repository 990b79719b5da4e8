"""`megenginelite`: the vendor's Python API on Triune's core.

Names, signatures, defaults and error classes are the vendor's; docs/megenginelite.md says what differs. Importing this
loads neither numpy nor the native module's heavier parts: what needs them does.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import *  # noqa: F403 - programs that import everything from the vendor's package use these

from triune.megenginelite.base import get_log_level, set_log_level, version
from triune.megenginelite.global_setting import LiteDecryptionFunc, LiteGlobal, decryption_func
from triune.megenginelite.network import (
    LiteAsyncCallback,
    LiteConfig,
    LiteExtraConfig,
    LiteFinishCallback,
    LiteIO,
    LiteNetwork,
    LiteNetworkIO,
    LiteOptions,
    LiteStartCallback,
    get_model_io_info,
    start_finish_callback,
    wrap_async_callback,
)
from triune.megenginelite.struct import (
    LiteAlgoSelectStrategy,
    LiteBackend,
    LiteDataType,
    LiteDeviceType,
    LiteIOType,
    LiteLogLevel,
    LiteTensorPhase,
)
from triune.megenginelite.tensor import (
    MAX_DIM,
    LiteLayout,
    LiteTensor,
    LiteTensorConcat,
    ctype_to_lite_dtypes,
    lite_dtype_2_numpy,
)
from triune.megenginelite.utils import TensorBatchCollector

__all__ = [
    "MAX_DIM",
    "LiteAlgoSelectStrategy",
    "LiteAsyncCallback",
    "LiteBackend",
    "LiteConfig",
    "LiteDataType",
    "LiteDecryptionFunc",
    "LiteDeviceType",
    "LiteExtraConfig",
    "LiteFinishCallback",
    "LiteGlobal",
    "LiteIO",
    "LiteIOType",
    "LiteLayout",
    "LiteLogLevel",
    "LiteNetwork",
    "LiteNetworkIO",
    "LiteOptions",
    "LiteStartCallback",
    "LiteTensor",
    "LiteTensorConcat",
    "LiteTensorPhase",
    "TensorBatchCollector",
    "__version__",
    "config_env",
    "ctype_to_lite_dtypes",
    "decryption_func",
    "get_log_level",
    "get_model_io_info",
    "lite_dtype_2_numpy",
    "set_log_level",
    "start_finish_callback",
    "version",
    "wrap_async_callback",
]

__all__ += [name for name in vars(ctypes) if not name.startswith("_")]

__version__ = version


def config_env() -> None:
    """Set ``CUDA_MODULE_LOADING=LAZY`` unless ``ALREADY_CONFIG_CUDA_LOADING_MODE`` is set, as the vendor's does on import.

    Nothing here reads it; programs that start others with CUDA may count on it.
    """
    if "ALREADY_CONFIG_CUDA_LOADING_MODE" not in os.environ:
        os.environ["CUDA_MODULE_LOADING"] = "LAZY"
        os.environ["ALREADY_CONFIG_CUDA_LOADING_MODE"] = "1"
