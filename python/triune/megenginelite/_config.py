"""What configures a network: the vendor's structures, and a copy of what they say at the time a network is made."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from triune._text import short
from triune.megenginelite._errors import failure, mistyped
from triune.megenginelite._layout import LiteLayout
from triune.megenginelite._structure import Structure
from triune.megenginelite.struct import LiteBackend, LiteDeviceType, LiteIOType

__all__ = [
    "IO_POINTER",
    "LiteConfig",
    "LiteExtraConfig",
    "LiteIO",
    "LiteNetworkIO",
    "LiteOptions",
    "Settings",
]


class _Fields:
    """Assignments that name the field they fail at. Classes that programs derive may have attributes of their own."""

    # To type checkers, a class with this method takes every name.
    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            """Set a field.

            Raises AttributeError if there is no such field, TypeError if it does not take `value`.
            """
            owner = type(self)
            if owner.__module__ == __name__ and not hasattr(owner, name):
                raise AttributeError(_unknown(owner, name))
            _check(owner, name, value)
            try:
                super().__setattr__(name, value)
            except TypeError as error:
                raise mistyped(f"{owner.__name__}.{name}: {error}, got {value!r}") from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Let objects be copied and pickled, which ctypes does not where there are texts."""
        names = [name for owner in type(self).__mro__ for name, *_ in vars(owner).get("_fields_", ())]
        return _restored, (type(self), {name: getattr(self, name) for name in names} | vars(self))


def _restored(owner: type[Structure], fields: dict[str, Any]) -> Any:
    made = Structure.__new__(owner)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _check(owner: type[Structure], name: str, value: object) -> None:
    """Refuse what ctypes would take for something else: numbers as addresses of texts, all but the low bits of long ones."""
    kinds = {field: kind for each in owner.__mro__ for field, kind, *_ in vars(each).get("_fields_", ())}
    kind = kinds.get(name)
    if kind is ctypes.c_char_p:
        if isinstance(value, int):
            raise mistyped(f"{owner.__name__}.{name}: expected bytes, got a {type(value).__name__}")
        if isinstance(value, bytes) and b"\0" in value:
            raise mistyped(f"{owner.__name__}.{name}: a text ends at its first NUL, and {value!r} has one")
    elif kind is ctypes.c_int and isinstance(value, int) and not -(2**31) <= value < 2**31:
        raise mistyped(f"{owner.__name__}.{name}: an int of 32 bits is expected, and the one given is larger")


def _unknown(owner: type, name: str) -> str:
    import difflib

    names = [attribute for attribute in dir(owner) if not attribute.startswith("_")]
    near = difflib.get_close_matches(name, names, 3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(names)}"
    return short(f"{owner.__name__} has no field {name!r}; {hint}")


class LiteOptions(_Fields, Structure):
    """How a model is compiled and run. docs/megenginelite.md has a table of what each option does here."""

    enable_chwn4: int = 0
    """In the vendor's table of options, but not in its structure."""

    _fields_ = (
        ("weight_preprocess", ctypes.c_int),
        ("fuse_preprocess", ctypes.c_int),
        ("fake_next_exec", ctypes.c_int),
        ("var_sanity_check_first_run", ctypes.c_int),
        ("const_shape", ctypes.c_int),
        ("force_dynamic_alloc", ctypes.c_int),
        ("force_output_dynamic_alloc", ctypes.c_int),
        ("force_output_use_user_specified_memory", ctypes.c_int),
        ("no_profiling_on_shape_change", ctypes.c_int),
        ("jit_level", ctypes.c_int),
        ("comp_node_seq_record_level", ctypes.c_int),
        ("graph_opt_level", ctypes.c_int),
        ("async_exec_level", ctypes.c_int),
        ("enable_nchw44", ctypes.c_int),
        ("enable_nchw44_dot", ctypes.c_int),
        ("enable_nchw88", ctypes.c_int),
        ("enable_nhwcd4", ctypes.c_int),
        ("enable_nchw4", ctypes.c_int),
        ("enable_nchw32", ctypes.c_int),
        ("enable_nchw64", ctypes.c_int),
    )

    if TYPE_CHECKING:
        weight_preprocess: int
        fuse_preprocess: int
        fake_next_exec: int
        var_sanity_check_first_run: int
        const_shape: int
        force_dynamic_alloc: int
        force_output_dynamic_alloc: int
        force_output_use_user_specified_memory: int
        no_profiling_on_shape_change: int
        jit_level: int
        comp_node_seq_record_level: int
        graph_opt_level: int
        async_exec_level: int
        enable_nchw44: int
        enable_nchw44_dot: int
        enable_nchw88: int
        enable_nhwcd4: int
        enable_nchw4: int
        enable_nchw32: int
        enable_nchw64: int

    def __init__(self) -> None:
        """Set the defaults."""
        self.var_sanity_check_first_run = True
        self.graph_opt_level = 2
        self.async_exec_level = 1

    def __repr__(self) -> str:
        """Return the options, those of layouts apart, as the vendor shows them."""
        levels = ("jit_level", "comp_node_seq_record_level", "graph_opt_level", "async_exec_level")
        names = [name for name, *_ in self._fields_ if not name.startswith("enable_")]
        return repr({name: getattr(self, name) if name in levels else bool(getattr(self, name)) for name in names})


def _text(value: str | bytes) -> bytes:
    assert isinstance(value, str | bytes), f"expected str or bytes, got {type(value).__name__}"
    try:
        return value.encode() if isinstance(value, str) else value.decode().encode()
    except UnicodeError as error:
        raise failure(f"{value!r} is no name: {error}") from None


def _named(kind: type[IntEnum], value: int) -> int:
    """Return the member of an enumeration, or a number that is none as it is."""
    try:
        return kind(value)
    except ValueError:
        return value


class LiteConfig(_Fields, Structure):
    """How a network is loaded. A network copies what the structure says when it is made."""

    _fields_ = (
        ("has_compression", ctypes.c_int),
        ("device_id", ctypes.c_int),
        ("device_type", ctypes.c_int),
        ("backend", ctypes.c_int),
        ("_bare_model_cryption_name", ctypes.c_char_p),
        ("options", LiteOptions),
        ("auto_optimize_inference", ctypes.c_int),
        ("discrete_input_name", ctypes.c_char_p),
    )

    if TYPE_CHECKING:
        has_compression: int
        device_id: int
        device_type: int
        backend: int
        _bare_model_cryption_name: bytes
        options: LiteOptions
        auto_optimize_inference: int
        discrete_input_name: bytes

    def __init__(
        self, device_type: LiteDeviceType | int = LiteDeviceType.LITE_CPU, option: LiteOptions | None = None
    ) -> None:
        """Set the defaults; `option` is copied."""
        self.device_type = device_type
        self.options = LiteOptions() if option is None else option
        self._bare_model_cryption_name = b""
        self.backend = LiteBackend.LITE_DEFAULT
        self.discrete_input_name = b""

    @property
    def bare_model_cryption_name(self) -> str:
        """The name of the cipher of an encrypted model, empty if there is none. Set str or bytes.

        Raises AssertionError if it is set to something else.
        """
        return (self._bare_model_cryption_name or b"").decode()

    @bare_model_cryption_name.setter
    def bare_model_cryption_name(self, name: str | bytes) -> None:
        self._bare_model_cryption_name = _text(name)

    def __repr__(self) -> str:
        """Return the fields, as the vendor shows them."""
        return repr(
            {
                "has_compression": bool(self.has_compression),
                "device_id": self.device_id,
                "device_type": _named(LiteDeviceType, self.device_type),
                "backend": _named(LiteBackend, self.backend),
                "bare_model_cryption_name": self.bare_model_cryption_name,
                "options": self.options,
                "auto_optimize_inference": self.auto_optimize_inference,
                "discrete_input_name": self.discrete_input_name,
            }
        )


class LiteExtraConfig(_Fields, Structure):
    """Whether the configuration that a packed model brings is left out."""

    _fields_ = (("disable_configure_by_model_info", ctypes.c_int),)

    if TYPE_CHECKING:
        disable_configure_by_model_info: int

    def __init__(self, disable_model_config: bool | int = False) -> None:
        """Fill in the structure."""
        self.disable_configure_by_model_info = disable_model_config

    def __repr__(self) -> str:
        """Return the field, as the vendor shows it."""
        return repr({"disable_configure_by_model_info": bool(self.disable_configure_by_model_info)})


class LiteIO(_Fields, Structure):
    """How an input or output is wanted: where, with values or for its shape alone, in what layout."""

    _fields_ = (
        ("_name", ctypes.c_char_p),
        ("is_host", ctypes.c_int),
        ("io_type", ctypes.c_int),
        ("config_layout", LiteLayout),
    )

    if TYPE_CHECKING:
        _name: bytes
        is_host: int
        io_type: int
        config_layout: LiteLayout

    def __init__(
        self,
        name: str | bytes,
        is_host: bool | int = True,
        io_type: LiteIOType | int = LiteIOType.LITE_IO_VALUE,
        layout: LiteLayout | None = None,
    ) -> None:
        """Fill in the structure; `layout` is copied, and an empty one means the model's."""
        self._name = _text(name)
        self.is_host = is_host
        self.io_type = io_type
        self.config_layout = LiteLayout() if layout is None else layout

    @property
    def name(self) -> str:
        """The name of the input or output. Set str or bytes.

        Raises AssertionError if it is set to something else.
        """
        return self._name.decode()

    @name.setter
    def name(self, name: str | bytes) -> None:
        self._name = _text(name)

    def __repr__(self) -> str:
        """Return the fields, as the vendor shows them."""
        return repr(
            {
                "name": self.name,
                "is_host": bool(self.is_host),
                "io_type": _named(LiteIOType, self.io_type),
                "config_layout": self.config_layout,
            }
        )

    def __hash__(self) -> int:
        """Return the hash of the name."""
        return hash(self.name)


_IO: Any = LiteIO
"""To ctypes' types, which do not see that it is a structure."""
IO_POINTER = ctypes.POINTER(_IO)


class _LiteNetworkIO(ctypes.Structure):
    """The vendor's C structure."""

    _fields_ = (
        ("inputs", IO_POINTER),
        ("outputs", IO_POINTER),
        ("input_size", ctypes.c_size_t),
        ("output_size", ctypes.c_size_t),
    )


class LiteNetworkIO:
    """How a network's inputs and outputs are wanted: `LiteIO`s, or lists of the arguments of one.

    Raises AssertionError if an item is neither.
    """

    def __init__(
        self, inputs: Iterable[LiteIO | list[Any]] | None = None, outputs: Iterable[LiteIO | list[Any]] | None = None
    ) -> None:
        """Keep the items, in the lists `inputs` and `outputs`."""
        self.inputs = _ios("inputs", inputs)
        self.outputs = _ios("outputs", outputs)

    def add_input(
        self,
        obj: LiteIO | str | bytes,
        is_host: bool | int = True,
        io_type: LiteIOType | int = LiteIOType.LITE_IO_VALUE,
        layout: LiteLayout | None = None,
    ) -> None:
        """Add an input: a `LiteIO`, or the name of one and the rest: host memory, values, and the model's own layout unless
        they are given.

        Raises AssertionError if it is neither a `LiteIO` nor a name.
        """
        self.inputs.append(obj if isinstance(obj, LiteIO) else LiteIO(obj, is_host, io_type, layout))

    def add_output(
        self,
        obj: LiteIO | str | bytes,
        is_host: bool | int = True,
        io_type: LiteIOType | int = LiteIOType.LITE_IO_VALUE,
        layout: LiteLayout | None = None,
    ) -> None:
        """Add an output: a `LiteIO`, or the name of one and the rest, as `add_input` does."""
        self.outputs.append(obj if isinstance(obj, LiteIO) else LiteIO(obj, is_host, io_type, layout))

    def _create_network_io(self) -> _LiteNetworkIO:
        """Return the vendor's C structure, which keeps what it points to alive."""
        found = _LiteNetworkIO()
        for name, items in (("inputs", self.inputs), ("outputs", self.outputs)):
            array = (_IO * max(len(items), 1))(*items)
            setattr(found, name, ctypes.cast(array, IO_POINTER))
        found.input_size, found.output_size = len(self.inputs), len(self.outputs)
        return found

    def __repr__(self) -> str:
        """Return the lists, as the vendor shows them."""
        return repr({"inputs": self.inputs, "outputs": self.outputs})


def _ios(argument: str, items: Iterable[LiteIO | list[Any]] | None) -> list[LiteIO]:
    if items is not None and not isinstance(items, Iterable):
        raise mistyped(f"LiteNetworkIO: {argument}: expected a list of LiteIO, got {type(items).__name__}")
    return [_io(item) for item in items or ()]


def _io(item: LiteIO | list[Any]) -> LiteIO:
    if isinstance(item, list | tuple):
        try:
            return LiteIO(*item)
        except TypeError as error:
            raise mistyped(f"LiteNetworkIO: {item!r} as the arguments of a LiteIO: {error}") from None
    assert isinstance(item, LiteIO), f"expected a LiteIO or a list of its arguments, got {type(item).__name__}"
    return item


MOST_THREADS = 1024
"""The largest `threads_number`."""


@dataclass
class Settings:
    """What a `LiteConfig` said when a network was made, and what a packed model or the network's methods changed."""

    compressed: bool
    device_type: LiteDeviceType
    device_id: int
    cipher: str
    discrete_input: str
    auto_optimize: bool
    options: dict[str, int]
    stream_id: int = 0
    threads: int = 1
    inplace: bool = False
    tensorrt: bool = False
    layout_transform: bool = False
    asked: dict[str, Any] = field(default_factory=dict)
    """What else was asked for by name, and to what value: fast-run and the like."""

    def copy(self) -> Settings:
        """Return settings for one model, which it may change; what is asked for by name later is the same in both."""
        return replace(self, options=dict(self.options))

    @classmethod
    def of(cls, config: LiteConfig) -> Settings:
        """Return what `config` says.

        Raises RuntimeError if there is no such device type or back end.
        """
        from triune.megenginelite._devices import device_type

        if config.backend != LiteBackend.LITE_DEFAULT:
            raise failure(f"backend: expected LITE_DEFAULT, got {config.backend}")
        return cls(
            compressed=bool(config.has_compression),
            device_type=device_type(config.device_type),
            device_id=config.device_id,
            cipher=config.bare_model_cryption_name,
            discrete_input=(config.discrete_input_name or b"").decode(errors="backslashreplace"),
            auto_optimize=bool(config.auto_optimize_inference),
            options={name: getattr(config.options, name) for name, *_ in LiteOptions._fields_},
        )

    def check_levels(self) -> None:
        """Raise RuntimeError unless the levels are such as the vendor documents."""
        for name, most in LEVELS.items():
            if not 0 <= self.options[name] <= most:
                raise failure(f"{name}: expected a level from 0 to {most}, got {self.options[name]}")


LEVELS = {"jit_level": 2, "comp_node_seq_record_level": 2, "graph_opt_level": 3}
"""The highest level of each option that has levels; `async_exec_level` has flags."""


EFFECTS = {
    "weight_preprocess": "always so: weights are packed for the kernels when a model is loaded",
    "fuse_preprocess": "always so: what can be fused is",
    "fake_next_exec": "",
    "var_sanity_check_first_run": "always so: inputs are checked before every run of another layout",
    "const_shape": "",
    "force_dynamic_alloc": "no effect: memory is planned once for each set of input shapes",
    "force_output_dynamic_alloc": "",
    "force_output_use_user_specified_memory": "",
    "no_profiling_on_shape_change": "always so: there is no search among algorithms",
    "jit_level": "no effect: there is no compiler of kernels",
    "comp_node_seq_record_level": "always recorded; level 2 fixes the input shapes after the first run",
    "graph_opt_level": "at 0 every operator runs by itself; at any other level the graph is optimized",
    "async_exec_level": "no effect: there is one queue",
    "enable_nchw44": "no effect: kernels choose their layout themselves",
    "enable_nchw44_dot": "no effect: kernels choose their layout themselves",
    "enable_nchw88": "no effect: kernels choose their layout themselves",
    "enable_nhwcd4": "no effect: kernels choose their layout themselves",
    "enable_nchw4": "no effect: kernels choose their layout themselves",
    "enable_nchw32": "no effect: kernels choose their layout themselves",
    "enable_nchw64": "no effect: kernels choose their layout themselves",
    "auto_optimize_inference": "always so: there is nothing to choose by the machine",
    "stream_id": "no effect: there is one queue",
    "use_tensorrt": "no effect: there is no TensorRT",
    "enable_global_layout_transform": "no effect: kernels choose their layout themselves",
    "set_network_algo_policy": "no effect: there is one algorithm for each operator and shape",
    "set_network_algo_workspace_limit": "no effect: memory is planned for the least there can be",
}
"""What each option does; empty for those that do as documented."""
