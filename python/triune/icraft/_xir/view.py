"""Views: some operations of a network, with the inputs and outputs that they have together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from triune.icraft._xir.base import NetworkBase, is_input, is_output
from triune.icraft._xir.errors import Error
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.places import CompileTarget
from triune.icraft._xir.values import Params, Value

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network

__all__ = ["NetworkView"]


class NetworkView(NetworkBase):
    """Some operations of a network, in their order there. It keeps them when the network is changed later."""

    type_key = "icraft::xir::NetworkViewNode"
    _fields: ClassVar[tuple[str, ...]] = ("_ops", "_ai_target")
    _network: Network
    _order: list[int] | None = None

    @classmethod
    def _make(cls, network: Network, ops: Sequence[Operation]) -> NetworkView:
        view = cls._new()
        view._network, view._ops = network, list(ops)
        return view

    @property
    def _ai_target(self) -> CompileTarget:  # type: ignore[override]
        return self._whole()._ai_target

    def setAITarget(self, ai_target: CompileTarget) -> Self:
        """Set the accelerator that the network is for: the whole network's, not the view's alone. Raises TypeError if it is
        no `CompileTarget`, Error if the view is of no network."""
        self._whole().setAITarget(ai_target)
        return self

    def _set_defaults(self, **given: Any) -> None:
        self._ops = []

    def _index(self) -> Any:
        # Numbers and connections may change at any time: they are looked at anew with the network's.
        network = self.__dict__.get("_network")
        version = None if network is None else network._version
        if self.__dict__.get("_seen") != version:
            self._cached = None
            self.__dict__["_seen"] = version
        return super()._index()

    def _clone(self, depth: int) -> Self:
        copy = type(self)._new()
        copy.__dict__.update(self.__dict__)
        copy._ops = list(self._ops)
        copy._cached = None
        return copy

    def _named(self) -> str:
        return "the view"

    def _whole(self) -> Network:
        network: Network | None = self.__dict__.get("_network")
        if network is None:
            raise Error("the view is of no network")
        return network

    def network(self) -> Network:
        """Return the network that this is a view of. Raises Error if it is of none, as ``NetworkView.Init()``."""
        return self._whole()

    def inputs(self) -> list[Value]:
        """Return what the view's `Input` operation makes, then what its operations take and none of them makes; each once."""
        made = {id(value) for op in self._ops for value in op._outputs}
        found = super().inputs()
        for op in self._ops:
            found += [
                value
                for value in op._inputs
                if value.defined() and not isinstance(value, Params) and id(value) not in made
            ]
        return _unique(found)

    def outputs(self) -> list[Value]:
        """Return what the view's `Output` operation takes, and what its operations make for others; each once.

        What nobody takes counts only in a network that has no `Output` yet. In the order of the network's outputs if they
        are the same values, otherwise in execution order, unless `setOutputsOrderByValueIds` said another.
        """
        found = super().outputs()
        inside = {id(op) for op in self._ops}
        uses = self._whole()._index().uses if self._ops else {}
        unfinished = bool(self._ops) and not any(map(is_output, self._whole()._ops))
        for op in self._ops:
            for value in op._outputs:
                takers = [taker for taker, _ in uses.get(value._v_id, ())]
                if any(id(taker) not in inside for taker in takers) or (unfinished and not takers and not is_input(op)):
                    found.append(value)
        found = _unique(found)
        order = self._order
        if order is None and not any(is_output(op) for op in self._ops) and self._ops:
            order = [value._v_id for value in _unique(self._whole().outputs())]
        if order is not None and sorted(order) == sorted(value._v_id for value in found):
            found.sort(key=lambda value: order.index(value._v_id))
        return found

    def setOutputsOrderByValueIds(self, arg0: Sequence[int]) -> Self:
        """Set the order of the outputs by their numbers (`Value.v_id`), for `outputs` and `toNetwork`.

        Raises Error unless the numbers are those of the outputs, each once.
        """
        numbers = [value._v_id for value in self.outputs()]
        if sorted(arg0) != sorted(numbers):
            raise Error(f"the view's outputs are the values {numbers}: {list(arg0)} is no order of them")
        self._order = [int(number) for number in arg0]
        return self

    def _json(self) -> Any:
        document = super()._json()
        document["inputs"] = [value._json() for value in self.inputs()]
        document["outputs"] = [value._json() for value in self.outputs()]
        return document

    def toNetwork(self) -> Network:
        """Return a network of its own, of copies; `Input` and `Output` are added if they are not there.

        Numbers and names are kept, parameters are shared.
        """
        from triune.icraft._xir.network import copied

        return copied(self._whole(), self._ops, self.inputs(), self.outputs())


def _unique(values: list[Value]) -> list[Value]:
    return list({id(value): value for value in values}.values())
