"""Passes: named functions from networks to networks, in sequences, under a context that allows and forbids them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from triune._text import short
from triune.icraft._xir.errors import Error
from triune.icraft._xir.objects import Concrete, ObjectRef, String, from_plain

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network

__all__ = ["ICRAFT_REGISTER_PASS", "NetworkPass", "Pass", "PassContext", "PassInfo", "SequentialPass"]

_REGISTERED: dict[str, Pass] = {}
_CONTEXTS = threading.local()
_TOP = (1 << 63) - 1


def _names(names: Iterable[str | String]) -> list[str]:
    return [str(name._text if isinstance(name, String) else name) for name in names]


class PassInfo(Concrete):
    """What a pass is called, its level, and what has to run before it."""

    type_key = "icraft::xir::PassInfoNode"
    _fields = ("_name", "_opt_level", "_required_passes")
    _defaults: ClassVar[Mapping[str, Any]] = {"_name": "", "_opt_level": 0, "_required_passes": list}
    _name: str
    _opt_level: int
    _required_passes: list[str]

    def __init__(
        self, name: str | String | ObjectRef, opt_level: int = 0, required_passes: Sequence[str | String] = ()
    ) -> None:
        """Take the name, the level and the names of the passes before it."""
        if isinstance(name, ObjectRef) and not isinstance(name, String):
            raise TypeError(f"PassInfo() takes a name, not {type(name).__name__}")
        (self._name,) = _names([name])
        self._opt_level, self._required_passes = opt_level, _names(required_passes)

    @property
    def name(self) -> String:
        """The name, a `String`; that of `Pass.Create`."""
        return String(self._name)

    @property
    def opt_level(self) -> int:
        """The level, 0 unless it is given: contexts run passes up to theirs (`PassContext.top_level`)."""
        return self._opt_level

    @property
    def required_passes(self) -> list[str]:
        """The names of the passes that have to run before it, in their order. A new list."""
        return list(self._required_passes)


class PassContext(Concrete):
    """Which passes may run, and settings for them. In a ``with`` it is the current one of the thread."""

    type_key = "icraft::xir::PassContextNode"
    _fields = ("_top_level", "_required_passes", "_disabled_passes", "_config")
    _defaults: ClassVar[Mapping[str, Any]] = {
        "_top_level": _TOP,
        "_required_passes": list,
        "_disabled_passes": list,
        "_config": dict,
    }
    _top_level: int
    _required_passes: list[str]
    _disabled_passes: list[str]
    _config: dict[str, ObjectRef]

    def __init__(
        self,
        top_level: int | ObjectRef,
        required_passes: Sequence[str | String] = (),
        disabled_passes: Sequence[str | String] = (),
        config: Mapping[Any, Any] | None = None,
    ) -> None:
        """Take the highest level that runs, the names of passes that are required and of those that don't run, settings."""
        if isinstance(top_level, ObjectRef):
            raise TypeError(f"PassContext() takes a level, not {type(top_level).__name__}")
        self._top_level = top_level
        self._required_passes, self._disabled_passes = _names(required_passes), _names(disabled_passes)
        self._config = {_names([key])[0]: from_plain(value) for key, value in (config or {}).items()}

    @staticmethod
    def Current() -> PassContext:
        """Return the thread's current context; outside of any ``with`` one that allows everything, the thread's own."""
        stack = _stack()
        if not stack:
            stack.append(PassContext.Init())
        return stack[-1]

    def __enter__(self) -> PassContext:
        """Make it the thread's current context."""
        PassContext.Current()
        _stack().append(self)
        return self

    def __exit__(
        self, arg0: type[BaseException] | None, arg1: BaseException | None, arg2: TracebackType | None
    ) -> None:
        """Make the one before it current again."""
        _stack().pop()

    @property
    def top_level(self) -> int:
        """The highest level that runs; 2^63-1, which is every one, unless it is given."""
        return self._top_level

    @property
    def required_passes(self) -> list[str]:
        """The names of the passes that the context needs beforehand, for passes to read. A new list.

        Neither `isPassEnabled` nor a pass that runs heeds them: the vendor's documents have only the first's conditions, and
        these are none of them. What a pass needs beforehand is `PassInfo.required_passes`.
        """
        return list(self._required_passes)

    @property
    def disabled_passes(self) -> list[str]:
        """The names of the passes that do not run. A new list."""
        return list(self._disabled_passes)

    @property
    def config(self) -> dict[str, ObjectRef]:
        """The settings by name, objects all. A new dictionary: `setConfig` changes one."""
        return dict(self._config)

    def requirePass(self, pass_name: str) -> Self:
        """Add a name to `required_passes`. Returns the context itself, as all that change it do."""
        self._required_passes.append(pass_name)
        return self

    def removeRequiredPass(self, pass_name: str) -> Self:
        """Take a name out of `required_passes`, everywhere it is. One that is not there is no error."""
        self._required_passes = [name for name in self._required_passes if name != pass_name]
        return self

    def disablePass(self, pass_name: str) -> Self:
        """Keep a pass from running, by its name."""
        self._disabled_passes.append(pass_name)
        return self

    def removeDisabledPass(self, pass_name: str) -> Self:
        """Keep a pass from running no more. One that was not kept is no error."""
        self._disabled_passes = [name for name in self._disabled_passes if name != pass_name]
        return self

    def setConfig(self, key: str, value: Any) -> Self:
        """Set a setting; bools, ints, floats, strings, lists and dictionaries become objects. Raises TypeError of anything
        else."""
        self._config[key] = from_plain(value)
        return self

    def getConfig(self, key: str, default_value: ObjectRef | None = None) -> ObjectRef | None:
        """Return a setting, the default if there is none of that name."""
        return self._config.get(key, default_value)

    def isPassEnabled(self, info: PassInfo) -> bool:
        """Return whether a pass may run: it is not disabled, and its level not above the context's."""
        return info._name not in self._disabled_passes and info.opt_level <= self._top_level


def _stack() -> list[PassContext]:
    if not hasattr(_CONTEXTS, "stack"):
        _CONTEXTS.stack = []
    stack: list[PassContext] = _CONTEXTS.stack
    return stack


class Pass(ObjectRef):
    """A named function from a network to a network."""

    type_key = "icraft::xir::PassNode"
    _fields: ClassVar[tuple[str, ...]] = ("_pass_info",)
    _pass_info: PassInfo

    @staticmethod
    def Create(name: str, dll_path: str = "") -> Pass:
        """Return the pass that was registered under a name.

        Raises Error if there is none, NotImplementedError if it should come from a library, which only the vendor's loads.
        """
        if dll_path:
            raise NotImplementedError(short(f"Pass.Create: passes of compiled libraries ({dll_path}) are not loaded"))
        if name not in _REGISTERED:
            raise Error(f"there is no pass {name!r}; registered are: {', '.join(sorted(_REGISTERED)) or 'none'}")
        return _REGISTERED[name]

    def __call__(self, network: Network, pass_ctx: PassContext | None = None) -> Network:
        """Run, after the passes that it requires, and return the network; a pass that may not run returns it as it is.

        Raises Error if a pass that it requires is not registered.
        """
        context = PassContext.Current() if pass_ctx is None else pass_ctx
        if not context.isPassEnabled(self._pass_info):
            return network
        for name in self._pass_info.required_passes:
            network = Pass.Create(name)(network, context)
        return self._run(network, context)

    def _run(self, network: Network, context: PassContext) -> Network:
        raise NotImplementedError

    @property
    def pass_info(self) -> PassInfo:
        """What it is called, its level, and what has to run before it: the pass's own, so that changes to it are the pass's."""
        return self._pass_info

    def setPassInfo(self, pass_info: PassInfo) -> Self:
        """Set what it is called, its level, and what has to run before it. Returns the pass itself, as all setters do."""
        self._pass_info = pass_info
        return self

    def setName(self, name: str | String) -> Self:
        """Set what it is called. `Pass.Create` knows it by the name that it was registered under."""
        (self._pass_info._name,) = _names([name])
        return self

    def setOptLevel(self, opt_level: int) -> Self:
        """Set its level."""
        self._pass_info._opt_level = opt_level
        return self

    def setRequiredPasses(self, required_passes: Sequence[str | String]) -> Self:
        """Set the names of the passes that have to run before it."""
        self._pass_info._required_passes = _names(required_passes)
        return self

    def _say(self, name: str | String | PassInfo | None, opt_level: int, required: Sequence[str | String]) -> None:
        if name is None:
            raise TypeError(f"{type(self).__name__}() takes a name or a PassInfo, too")
        self._pass_info = name if isinstance(name, PassInfo) else PassInfo(name, opt_level, required)


class NetworkPass(Pass, Concrete):
    """A pass that is one function."""

    type_key = "icraft::xir::NetworkPassNode"
    _defaults: ClassVar[Mapping[str, Any]] = {"_pass_info": PassInfo.Init, "_pass_func": None}
    _pass_func: Callable[[Network, PassContext], Network] | None

    def __init__(
        self,
        pass_func: Callable[[Network, PassContext], Network] | ObjectRef,
        name: str | String | PassInfo | None = None,
        opt_level: int = 0,
        required_passes: Sequence[str | String] = (),
        *,
        pass_info: PassInfo | None = None,
    ) -> None:
        """Take the function of network and context, and a name, a level and the passes before it, or a `PassInfo`."""
        if isinstance(pass_func, ObjectRef):
            raise TypeError(f"NetworkPass() takes a function, not {type(pass_func).__name__}")
        self._pass_func = pass_func
        self._say(pass_info if name is None else name, opt_level, required_passes)

    @property
    def pass_func(self) -> Callable[[Network, PassContext], Network] | None:
        """The function, of network and context; it returns a network. None of ``NetworkPass.Init()``, which raises Error when
        it runs."""
        return self._pass_func

    def _run(self, network: Network, context: PassContext) -> Network:
        if self._pass_func is None:
            raise Error(f"pass {self._pass_info._name!r} has no function")
        return self._pass_func(network, context)


class SequentialPass(Pass, Concrete):
    """A pass that is several, one after the other."""

    type_key = "icraft::xir::SequentialPassNode"
    _fields = ("_pass_info", "_passes")
    _defaults: ClassVar[Mapping[str, Any]] = {"_pass_info": PassInfo.Init, "_passes": list}
    _passes: list[Pass]

    def __init__(
        self,
        passes: Sequence[Pass] | ObjectRef,
        name: str | String | PassInfo | None = "sequential",
        opt_level: int = 0,
        required_passes: Sequence[str | String] = (),
        *,
        pass_info: PassInfo | None = None,
    ) -> None:
        """Take the passes, and a name, a level and the passes before it, or a `PassInfo`."""
        if isinstance(passes, ObjectRef):
            raise TypeError(f"SequentialPass() takes a list of passes, not {type(passes).__name__}")
        self._passes = list(passes)
        self._say(name if pass_info is None else pass_info, opt_level, required_passes)

    @property
    def passes(self) -> list[Pass]:
        """The passes in the order in which they run. A new list."""
        return list(self._passes)

    def _run(self, network: Network, context: PassContext) -> Network:
        for one in self._passes:
            network = one(network, context)
        return network


def ICRAFT_REGISTER_PASS(arg0: Callable[..., Any]) -> Any:
    """Register a pass, for `Pass.Create`: a function that returns one, under that one's name; or a function that is one.

    Usable as a decorator: returns what it was given.

    Raises Error if the function neither returns a pass nor takes a network and a context.
    """
    import inspect

    needed = [
        parameter
        for parameter in inspect.signature(arg0).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    made = arg0() if not needed else NetworkPass(arg0, getattr(arg0, "__name__", "pass"))
    if not isinstance(made, Pass):
        raise Error(f"ICRAFT_REGISTER_PASS: {arg0!r} returned a {type(made).__name__}, not a pass")
    _REGISTERED[made._pass_info._name] = made
    return arg0
