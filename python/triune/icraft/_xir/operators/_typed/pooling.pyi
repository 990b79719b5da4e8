# Written by tools/operator_stubs.py from the tables of pooling.py: change those.
from typing import overload

from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.values import Value

class AvgPool1d(Operation):
    pool_width: int
    stride_width: int
    pad_left: int
    pad_right: int
    count_include_pad: bool
    divisor_override: int
    @overload
    def __init__(
        self,
        input: Value,
        pool_width: int,
        stride_width: int,
        pad_left: int,
        pad_right: int,
        count_include_pad: bool = ...,
        divisor_override: int = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class AvgPool2d(Operation):
    pool_width: int
    pool_height: int
    stride_width: int
    stride_height: int
    pad_top: int
    pad_bottom: int
    pad_left: int
    pad_right: int
    count_include_pad: bool
    divisor_override: int
    @overload
    def __init__(
        self,
        input: Value,
        pool_width: int,
        pool_height: int,
        stride_width: int,
        stride_height: int,
        pad_top: int,
        pad_bottom: int,
        pad_left: int,
        pad_right: int,
        count_include_pad: bool = ...,
        divisor_override: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        pool_size: int,
        stride: int,
        pad_top_bottom: int,
        pad_left_right: int,
        count_include_pad: bool = ...,
        divisor_override: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        pool_size: int,
        stride: int,
        pad: int,
        count_include_pad: bool = ...,
        divisor_override: int = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class AvgPool3d(Operation):
    pool_depth: int
    pool_width: int
    pool_height: int
    stride_depth: int
    stride_width: int
    stride_height: int
    pad_front: int
    pad_back: int
    pad_top: int
    pad_bottom: int
    pad_left: int
    pad_right: int
    count_include_pad: bool
    divisor_override: int
    @overload
    def __init__(
        self,
        input: Value,
        pool_depth: int,
        pool_width: int,
        pool_height: int,
        stride_depth: int,
        stride_width: int,
        stride_height: int,
        pad_front: int,
        pad_back: int,
        pad_top: int,
        pad_bottom: int,
        pad_left: int,
        pad_right: int,
        count_include_pad: bool = ...,
        divisor_override: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        pool_size: int,
        stride: int,
        pad_front_top_bottom: int,
        pad_back_left_right: int,
        count_include_pad: bool = ...,
        divisor_override: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        pool_size: int,
        stride: int,
        pad: int,
        count_include_pad: bool = ...,
        divisor_override: int = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class MaxPool1d(Operation):
    pool_width: int
    stride_width: int
    pad_left: int
    pad_right: int
    dilation_width: int
    @overload
    def __init__(
        self, input: Value, pool_width: int, stride_width: int, pad_left: int, pad_right: int, dilation_width: int
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class MaxPool2d(Operation):
    pool_width: int
    pool_height: int
    stride_width: int
    stride_height: int
    pad_top: int
    pad_bottom: int
    pad_left: int
    pad_right: int
    dilation_width: int
    dilation_height: int
    @overload
    def __init__(
        self,
        input: Value,
        pool_width: int,
        pool_height: int,
        stride_width: int,
        stride_height: int,
        pad_top: int,
        pad_bottom: int,
        pad_left: int,
        pad_right: int,
        dilation_width: int,
        dilation_height: int,
    ) -> None: ...
    @overload
    def __init__(
        self, input: Value, pool_size: int, stride: int, pad_top_bottom: int, pad_left_right: int, dilation: int
    ) -> None: ...
    @overload
    def __init__(self, input: Value, pool_size: int, stride: int, pad: int, dilation: int) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class MaxPool3d(Operation):
    pool_depth: int
    pool_width: int
    pool_height: int
    stride_depth: int
    stride_width: int
    stride_height: int
    pad_front: int
    pad_back: int
    pad_top: int
    pad_bottom: int
    pad_left: int
    pad_right: int
    dilation_depth: int
    dilation_width: int
    dilation_height: int
    @overload
    def __init__(
        self,
        input: Value,
        pool_depth: int,
        pool_width: int,
        pool_height: int,
        stride_depth: int,
        stride_width: int,
        stride_height: int,
        pad_front: int,
        pad_back: int,
        pad_top: int,
        pad_bottom: int,
        pad_left: int,
        pad_right: int,
        dilation_depth: int,
        dilation_width: int,
        dilation_height: int,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        pool_size: int,
        stride: int,
        pad_front_top_bottom: int,
        pad_back_left_right: int,
        dilation: int,
    ) -> None: ...
    @overload
    def __init__(self, input: Value, pool_size: int, stride: int, pad: int, dilation: int) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...
