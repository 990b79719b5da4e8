"""Searching a network for patterns, and rewriting what is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from triune.icraft._xir.base import is_output
from triune.icraft._xir.conversions import Unpicklable, bind_members
from triune.icraft._xir.errors import Error
from triune.icraft._xir.operation import Operation
from triune.icraft._xir.patterns import Match, OpPattern, Pattern, matches
from triune.icraft._xir.values import Value

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network

__all__ = ["NetworkRewriter", "Rewriting"]


class NetworkRewriter(Unpicklable):
    """How a rewriting goes on: from the start, unless the function that rewrites says otherwise."""

    def __init__(self) -> None:
        """Go on from the start."""
        self._continues = False
        self._breaks = False

    def Continue(self) -> None:
        """Go on behind the operation that the match started from, instead of from the start. It holds for the match at hand."""
        self._continues = True

    def Break(self) -> None:
        """Go on no more: `rewrite` returns after the match at hand."""
        self._breaks = True


@bind_members
class Rewriting:
    """The part of `Network` that searches and rewrites."""

    def _found(self: Network, pattern: Pattern, start: int = 0) -> Iterator[tuple[int, Match]]:  # type: ignore[misc]
        for place, op in enumerate(self.ops):
            if place >= start:
                for match in matches(pattern, op):
                    yield place, match
                    break

    def search(self: Network, pattern: Pattern) -> list[Match]:  # type: ignore[misc]
        """Return the matches of a pattern, at most one for each operation to start from, in execution order.

        Raises Error if the pattern is null or a value's.
        """
        return [match for _, match in self._found(pattern)]

    def searchOnce(self: Network, pattern: Pattern) -> Match:  # type: ignore[misc]
        """Return the first match of a pattern in execution order, an empty dictionary if there is none. Raises as `search`
        does."""
        return next((match for _, match in self._found(pattern)), {})

    def rewriter(self: Network) -> NetworkRewriter:  # type: ignore[misc]
        """Return what the function of `rewrite` controls it with: the same object every time of one network."""
        if "_rewriter" not in self.__dict__:
            self.__dict__["_rewriter"] = NetworkRewriter()
        rewriter: NetworkRewriter = self.__dict__["_rewriter"]
        return rewriter

    def rewrite(  # type: ignore[misc]
        self: Network, pattern: Pattern, callback: Callable[[Network, Match], object], times: int = 10000
    ) -> None:
        """Search for a pattern and call a function with the network and the match, until there is none, or `times` times.

        Each search goes from the start, unless the function called `NetworkRewriter.Continue` or `NetworkRewriter.Break`.
        """
        start = 0
        rewriter = self.rewriter()
        for _ in range(times):
            found = next(self._found(pattern, start), None)
            if found is None:
                return
            place, match = found
            root = self[place]
            rewriter._continues = rewriter._breaks = False
            callback(self, match)
            if rewriter._breaks:
                return
            # Behind the operation that the match started from, or behind its place if it is gone.
            here = self.getOpIndexById(root.op_id) if root._network is self else place
            start = here + 1 if rewriter._continues else 0

    def replaceGroup(self: Network, src: Mapping[OpPattern, Operation], dest: Operation) -> Network:  # type: ignore[misc]
        """Put an operation in the place of all operations of a match, its outputs where theirs were taken from outside.

        If it has no inputs it takes what they took from outside; if it has no outputs and no rule for them, what others
        took from them becomes its own. Raises Error if it has another number of outputs than are taken.
        """
        group = sorted({op.op_id: op for op in src.values()}.values(), key=lambda op: self.getOpIndexById(op.op_id))
        if not group:
            raise Error(f"{self._named()}: the match has no operations")
        inside = {id(self._own(op)) for op in group}
        taken: list[Value] = []
        for op in group:
            for value in op._outputs:
                users = [user for user, _ in self.getUsesInfo(value)]
                if any(id(user) not in inside for user in users) or (not users and op is group[-1]):
                    taken.append(value)
        if not dest._inputs:
            made = {id(value) for op in group for value in op._outputs}
            outside = [value for op in group for value in op._inputs if id(value) not in made]
            dest.setInputs(list({id(value): value for value in outside}.values()))
        taken_by = [[use for use in self.getUsesInfo(value) if id(use[0]) not in inside] for value in taken]
        adopts = not dest._outputs and dest._rule is None and not is_output(dest)
        if not adopts:
            if dest._rule is not None:
                dest.inferResults()
            if len(dest._outputs) != len(taken):
                raise Error(f"{dest._called()} has {len(dest._outputs)} outputs, {len(taken)} of the group are taken")
        place = self.getOpIndexById(group[-1].op_id) - len(group) + 1
        for op in group:
            self.removeOpById(op.op_id)
        if adopts:
            dest.setOutputs(taken)
        self.insertOp(place, dest)
        if not adopts:
            for value, use in zip(dest._outputs, taken_by, strict=True):
                self.connect(value, use)
        return self
