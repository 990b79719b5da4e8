# Written by tools/operator_stubs.py from the tables of convolution.py: change those.
from typing import overload

from triune.icraft._xir.arrays import QuantizedScaleArray
from triune.icraft._xir.enums import PaddingMode
from triune.icraft._xir.objects import ObjectRef
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.values import Value

class Conv1d(Operation):
    stride_width: int
    pad_left: int
    pad_right: int
    dilation_width: int
    groups: int
    padding_mode: PaddingMode
    cut_scale: QuantizedScaleArray
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride_width: int,
        pad_left: int,
        pad_right: int,
        dilation_width: int,
        groups: int = ...,
        padding_mode: PaddingMode = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Conv2d(Operation):
    stride_width: int
    stride_height: int
    pad_top: int
    pad_bottom: int
    pad_left: int
    pad_right: int
    dilation_width: int
    dilation_height: int
    groups: int
    padding_mode: PaddingMode
    cut_scale: QuantizedScaleArray
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride_width: int,
        stride_height: int,
        pad_top: int,
        pad_bottom: int,
        pad_left: int,
        pad_right: int,
        dilation_width: int,
        dilation_height: int,
        groups: int = ...,
        padding_mode: PaddingMode = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride: int,
        pad: int,
        dilation: int,
        groups: int = ...,
        padding_mode: PaddingMode = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Conv3d(Operation):
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
    groups: int
    padding_mode: PaddingMode
    cut_scale: QuantizedScaleArray
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
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
        groups: int = ...,
        padding_mode: PaddingMode = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride: int,
        pad: int,
        dilation: int,
        groups: int = ...,
        padding_mode: PaddingMode = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class ConvTranspose1d(Operation):
    stride_width: int
    pad_left: int
    pad_right: int
    dilation_width: int
    output_pad_width: int
    groups: int
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride_width: int,
        pad_left: int,
        pad_right: int,
        dilation_width: int,
        output_pad_width: int,
        groups: int = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class ConvTranspose2d(Operation):
    stride_width: int
    stride_height: int
    pad_top: int
    pad_bottom: int
    pad_left: int
    pad_right: int
    dilation_width: int
    dilation_height: int
    output_pad_width: int
    output_pad_height: int
    groups: int
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride_width: int,
        stride_height: int,
        pad_top: int,
        pad_bottom: int,
        pad_left: int,
        pad_right: int,
        dilation_width: int,
        dilation_height: int,
        output_pad_width: int,
        output_pad_height: int,
        groups: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride: int,
        pad: int,
        dilation: int,
        output_pad: int,
        groups: int = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class ConvTranspose3d(Operation):
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
    output_pad_depth: int
    output_pad_width: int
    output_pad_height: int
    groups: int
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
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
        output_pad_depth: int,
        output_pad_width: int,
        output_pad_height: int,
        groups: int = ...,
    ) -> None: ...
    @overload
    def __init__(
        self,
        input: Value,
        weights: Value,
        bias: Value | None,
        stride: int,
        pad: int,
        dilation: int,
        output_pad: int,
        groups: int = ...,
    ) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...

class Matmul(Operation):
    cut_scale: QuantizedScaleArray
    @overload
    def __init__(self, x: Value, k: Value, b: Value | None) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef = ..., /) -> None: ...
