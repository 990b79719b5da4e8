"""Plans: operations compiled by the core for certain shapes, run as often as needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from triune import _native
from triune.icraft._host.document import document, parameters
from triune.icraft._xrt.errors import BACKEND, NotSupported, failure
from triune.icraft._xrt.turn import turn

if TYPE_CHECKING:
    from triune.icraft._xir.operation import Operation
    from triune.icraft._xir.values import Value

__all__ = ["Plan"]

_WORDS = re.compile("(?=[_#])")

Elements = npt.NDArray[Any]


class Plan:
    """Operations compiled together: arrays in, arrays out. Threads that run one plan take turns."""

    def __init__(
        self,
        name: str,
        ops: Sequence[Operation],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        *,
        shapes: Sequence[Sequence[int]],
        threads: int,
        fake_qf: bool,
        sharing: Plan | None = None,
    ) -> None:
        """Compile.

        `shapes` are the extents of the inputs; with `sharing` the weights of a plan of the same operations are used.

        Raises InternalError that names the operation: NotSupported if the core does not compute it.
        """
        self._name = name
        self._lock = turn()
        self._ops = {
            op.name or f"{op.typeKey().removesuffix('Node').rsplit('::', 1)[-1]}_{op.op_id}": op.op_id for op in ops
        }
        options: dict[str, Any] = {"threads": threads}
        if sharing is not None:
            options["sharing_weights"] = sharing._native
        else:
            open_extents = {
                value.v_id: shape
                for value, shape in zip(inputs, shapes, strict=True)
                if value.tensorType().hasNegativeDim()
            }
            options["model"] = document(ops, inputs, outputs, open_extents)
            options["params"] = parameters(ops)
            options["fake_qf"] = fake_qf
        self._native: _native.Session = self._call(lambda: _native.Session(**options))
        self._call(lambda: self._native.prepare([list(shape) for shape in shapes]))
        planned = self._native.planned
        self._inputs, self._outputs = ([(np.dtype(dtype), shape) for _, dtype, shape in rows] for rows in planned)

    def run(
        self,
        inputs: Sequence[Elements],
        places: Sequence[Elements | None],
        times: dict[int, float] | None = None,
    ) -> list[Elements]:
        """Return the outputs. One that `places` has an array for is in that array, which is contiguous and apart from the
        inputs. `times` gets the milliseconds of each operation by its number.

        Raises InternalError that names the operation.
        """
        given = [np.require(array, dtype, ["C", "A"]) for array, (dtype, _) in zip(inputs, self._inputs, strict=True)]
        results: list[Elements | None] = []
        for (dtype, shape), place in zip(self._outputs, places, strict=True):
            fits = place is not None and place.dtype == dtype and list(place.shape) == shape
            results.append(place if fits else None if shape is None else np.empty(shape, dtype))
        with self._lock:
            self._call(lambda: self._native.bind(given, results))
            if times is not None:
                self._call(lambda: self._native.profile(True))
            try:
                self._call(self._native.forward)
                if times is not None:
                    self._note(times)
            finally:
                if times is not None:
                    self._call(lambda: self._native.profile(False))
            return [self._native.output(index) if array is None else array for index, array in enumerate(results)]

    def _note(self, times: dict[int, float]) -> None:
        """Note how many milliseconds each operation took; those that were computed with another have 0."""
        times.update(dict.fromkeys(self._ops.values(), 0.0))
        op_id = next(iter(self._ops.values()))
        for name, _, seconds in self._native.operator_times():
            # What an operation became has its name, and something behind it; what has none of them belongs to the one before.
            parts = _WORDS.split(name)
            names = ("".join(parts[:count]) for count in range(len(parts), 0, -1))
            op_id = next((self._ops[one] for one in names if one in self._ops), op_id)
            times[op_id] += seconds * 1e3

    def forked(self) -> bool:
        """Return whether a thread is in it that is not in this process."""
        return self._lock.forked() or self._native.forked()

    def _call(self, work: Any) -> Any:
        try:
            return work()
        except _native.UnsupportedError as error:
            raise NotSupported(f"[{BACKEND}] {self._name}: {error}") from None
        except _native.Error as error:
            raise failure(BACKEND, f"{self._name}: {error}") from None
