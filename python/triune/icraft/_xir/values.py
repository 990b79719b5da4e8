"""Values: what operations take and make; and parameters, the values that are known beforehand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, overload

from triune._masked import MASKED, is_masked
from triune.icraft._xir.binding import REQUIRED, fits, shown
from triune.icraft._xir.errors import Error
from triune.icraft._xir.filling import filled
from triune.icraft._xir.immediates import Data
from triune.icraft._xir.layout import Layout
from triune.icraft._xir.objects import Concrete, ObjectRef, from_plain, whole_number
from triune.icraft._xir.places import HostMem, MemType
from triune.icraft._xir.scalars import BoolType, FloatType, IntegerType, ScalarType
from triune.icraft._xir.types import TensorType

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from typing_extensions import Buffer

    from triune.icraft._xir.network import Network
    from triune.icraft._xir.operation import Operation

__all__ = ["Params", "Tagged", "Value"]

_IDS = itertools.count(-2, -1)
"""Numbers of values that no network has numbered yet."""


class Tagged(ObjectRef):
    """What has tags: notes by name, immediates, strings, lists or dictionaries."""

    _is_mixin = True
    _tags: dict[str, ObjectRef]

    @property
    def tags(self) -> dict[str, ObjectRef]:
        """The tags by name, in a new dictionary: `setTag` changes one."""
        return dict(self._tags)

    def getTag(self, key: str) -> ObjectRef | None:
        """Return a tag, as an object (`IntImm`, `FloatImm`, `Bool`, `String`, `Array` or `Map`); None if there is none of
        that name."""
        return self._tags.get(key)

    def setTag(self, key: str, value: Any) -> Self:
        """Set a tag; bools, ints, floats, strings, lists and dictionaries become objects, None a null handle.

        Raises TypeError of anything else, numpy's numbers included.
        """
        self._tags[str(key)] = from_plain(value)
        return self

    def removeTag(self, key: str) -> bool:
        """Take out a tag; return whether there was one. None of that name is no error."""
        return self._tags.pop(key, None) is not None


class Value(Tagged, Data, Concrete):
    """A tensor that an operation takes or makes."""

    type_key = "icraft::xir::ValueNode"
    _fields: ClassVar[tuple[str, ...]] = ("_dtype", "_mtype", "_name", "_tags", "_v_id")
    _defaults: ClassVar[Mapping[str, Any]] = {
        "_dtype": TensorType.Init,
        "_mtype": HostMem,
        "_name": "",
        "_tags": dict,
        "_v_id": lambda: next(_IDS),
    }
    _bonds = frozenset(("_op", "_index", "_network"))
    _name: str
    _v_id: int
    # The operation that makes it, and which of its outputs it is.
    _op: Operation | None = None
    _index = 0
    _network: Network | None = None

    def __init__(
        self,
        name: str | TensorType | ObjectRef = "",
        dtype: TensorType | MemType | None = None,
        mtype: MemType | None = None,
    ) -> None:
        """Take a name, a type and a place; or a type and a place. The place is the host's memory unless it is given."""
        called: object = name
        if isinstance(name, TensorType):
            if isinstance(dtype, MemType):
                mtype = dtype
            called, dtype = "", name
        if not isinstance(called, str) or not isinstance(dtype, TensorType):
            raise TypeError(f"{type(self).__name__}() takes a name, a TensorType and a MemType, or the last two")
        self._set_defaults(_name=called, _dtype=dtype, **({} if mtype is None else {"_mtype": mtype}))

    @property
    def name(self) -> str:
        """The name, often empty. It need not be unique."""
        return self._name

    def setName(self, name: str) -> Self:
        """Set the name. Returns the value itself, as all setters do."""
        self._name = name
        return self

    @property
    def v_id(self) -> int:
        """The number: 0 or more and unique in a network, from -2 down before a network gives one."""
        return self._v_id

    def setId(self, v_id: int) -> Self:
        """Set the number, 64 bits; outside of a network any. Networks give later values numbers above it.

        Raises Error if it is in a network and the number negative or another value's, TypeError if it does not fit 64 bits.
        """
        v_id = whole_number(v_id)
        network = self._owner()
        if network is not None:
            network._check_value_id(self, v_id)
        self._v_id = v_id
        if network is not None:
            network._touch()
        return self

    def tensorType(self) -> TensorType:
        """Return the type as a tensor's, with shape, layout and elements: the value's own, so that changes to it are the
        value's.

        Raises InternalError if it is another type, such as a scalar's.
        """
        return TensorType(self._dtype)

    def _tensor(self) -> TensorType:
        if not isinstance(self._dtype, TensorType):
            raise Error(f"value {self._v_id}: its type is not a tensor's but {self._dtype}")
        return self._dtype

    def isParams(self) -> bool:
        """Return whether it is known beforehand: whether it is a `Params`."""
        return isinstance(self, Params)

    def _owner(self) -> Network | None:
        return self._network if self._op is None else self._op._network

    def isBoundToOp(self) -> bool:
        """Return whether an operation makes it: `op` returns it then. Never of parameters."""
        return self._op is not None

    def isBoundToNetwork(self) -> bool:
        """Return whether it belongs to a network: an operation of one makes it or, of parameters, takes it."""
        return self._owner() is not None

    def op(self) -> Operation:
        """Return the operation that makes it. Raises Error if none does, as of parameters."""
        if self._op is None:
            raise Error(f"value {self._v_id}: no operation makes it")
        return self._op

    def index(self) -> int:
        """Return which output of its operation it is, from 0. Raises Error if none makes it."""
        self.op()
        return self._index

    def network(self) -> Network:
        """Return its network. Raises Error if it is in none."""
        network = self._owner()
        if network is None:
            raise Error(f"value {self._v_id}: it is in no network")
        return network

    def getUsesOp(self) -> list[Operation]:
        """Return the operations of its network that take it, in execution order, each once. Raises Error if it is in no
        network."""
        return self.network().getUsesOpByValueId(self._v_id)

    def getUsesNum(self) -> int:
        """Return how many operations take it; one that takes it twice counts once. Raises Error if it is in no network."""
        return self.network().getUsesNumByValueId(self._v_id)


class Source(Protocol):
    """Where the bytes of parameters are."""

    def view(self) -> npt.NDArray[np.uint8]:
        """Return the bytes, read-only. Raises Error if they cannot be had any more."""
        ...


class _Owned:
    """Bytes in memory."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        data.flags.writeable = False
        self._data = data

    def view(self) -> npt.NDArray[np.uint8]:
        """Return the bytes."""
        return self._data


_PARAMS_FORMS = (
    (("name", REQUIRED), ("dtype", REQUIRED), ("mtype", None)),
    (("dtype", REQUIRED),),
    (("b", REQUIRED), ("name", ""), ("layout", None), ("mtype", None)),
)


class Params(Value):
    """A tensor that is known beforehand, such as weights. Its data may be in a file until they are touched."""

    type_key = "icraft::xir::ParamsNode"
    _fields: ClassVar[tuple[str, ...]] = (*Value._fields, "_allow_no_data")
    _defaults: ClassVar[Mapping[str, Any]] = {
        **Value._defaults,
        "_allow_no_data": False,
        "_source": None,
        "_lazy": False,
        "_entry": math.inf,
    }
    _allow_no_data: bool
    _source: Source | None
    _lazy: bool
    _entry: float
    """The place in the table of the RAW file that it was read from, by which it is written again."""

    @overload
    def __init__(
        self, b: Buffer, name: str = ..., layout: Layout | None = ..., mtype: MemType | None = ...
    ) -> None: ...
    @overload
    def __init__(self, name: str, dtype: TensorType, mtype: MemType | None = ...) -> None: ...
    @overload
    def __init__(self, dtype: TensorType) -> None: ...
    @overload
    def __init__(self, arg0: ObjectRef) -> None: ...
    @overload
    def __init__(self) -> None: ...
    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        """Take data as a buffer, a name, a layout and a place; or, without data, a name, a type and a place, or a type.

        With a buffer its type and shape are taken over, and the data copied; the layout says nothing about axes unless it is
        given. Raises Error if no type of networks is like the buffer's.
        """
        for found in fits(_PARAMS_FORMS, arguments, keywords):
            if isinstance(found.get("dtype"), TensorType) and isinstance(found.get("name", ""), str):
                super().__init__(found.get("name", ""), found["dtype"], found.get("mtype"))
                return
            if "b" in found and isinstance(found["name"], str) and not isinstance(found["b"], ObjectRef | str):
                self._take(found["b"], found["name"], found["layout"], found["mtype"])
                return
        raise TypeError(f"the arguments fit none of {shown('Params', _PARAMS_FORMS)}")

    def _take(self, b: Buffer, name: str, layout: Layout | None, mtype: MemType | None) -> None:
        import numpy as np

        array = _as_array(b)
        layout = Layout.Default(array.ndim) if layout is None else layout
        super().__init__(name, TensorType(_scalar_of(array.dtype), array.shape, layout), mtype)
        self._source = _Owned(np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy())

    def _json(self) -> Any:
        document = super()._json()
        document["_allow_no_data"] = document.pop("allow_no_data")
        return document

    def _equals(self, other: Any) -> bool:
        if not super()._equals(other) or (self._source is None) != (other._source is None):
            return False
        if self._source is None or self._source is other._source:
            return True
        import numpy as np

        return bool(np.array_equal(self._source.view(), other._source.view()))

    # ---- data

    def hasData(self) -> bool:
        """Return whether there are data, in memory or in a file that was opened."""
        return self._source is not None

    def isLazyLoaded(self) -> bool:
        """Return whether the data stay in a file until they are touched (`Network.lazyLoadParamsFromFile`)."""
        return self._lazy

    def setLazy(self, lazy: bool) -> Self:
        """Say whether the data count as lazily loaded. False brings them into memory, as `load` does; True reads nothing and
        writes nothing."""
        if not lazy:
            self.load()
        self._lazy = bool(lazy)
        return self

    def load(self) -> None:
        """Bring data that are still in a file into memory; do nothing if there are none, or they are.

        Raises Error if the file was changed since it was opened, or cannot be read.
        """
        if self._source is not None and not isinstance(self._source, _Owned):
            self._source = _Owned(self._source.view().copy())
        self._lazy = False

    def isAllowNoData(self) -> bool:
        """Return whether files may leave the data out, False at first."""
        return self._allow_no_data

    def setAllowNoData(self, allow_no_data: bool) -> Self:
        """Set whether files may leave the data out: `Network.dumpParams` raises Error of parameters without data otherwise."""
        self._allow_no_data = bool(allow_no_data)
        return self

    def clearData(self) -> Self:
        """Let go of the data; the type stays. `data` raises Error until there are some again."""
        self._source, self._lazy = None, False
        return self

    def copyData(self, b: Buffer) -> None:
        """Copy the data from a buffer of any type and shape, as its bytes lie in C order.

        Raises Error unless it has as many bytes as `storageBytes` says, or if it is a masked array.
        """
        import numpy as np

        data = np.ascontiguousarray(_as_array(b)).reshape(-1).view(np.uint8)
        if data.size != self.storageBytes():
            raise Error(
                f"{self._called()}: {data.size} bytes given, its type {self._dtype} takes {self.storageBytes()}"
            )
        self._source, self._lazy = _Owned(data.copy()), False

    def fill(self, arg0: Callable[[int], float]) -> Self:
        """Set each element to what the function makes of its number, from 0 in the order of memory.

        Floats are rounded to the nearest, halves to even; of a calibrated type they are the real numbers.

        Raises Error if a number does not fit the element type, of which integers hold no fractions and no more than their bits
        can, the elements are ``fpe6m9`` or ``fpe7m8``, or an extent is not known.
        """
        import numpy as np

        try:
            data = filled(self._tensor(), arg0)
        except Error as error:
            raise Error(f"{self._called()}: {error}") from None
        self._source, self._lazy = _Owned(data.view(np.uint8)), False
        return self

    def data(self) -> npt.NDArray[Any]:
        """Return the data with the stored extents, read-only, without a copy.

        The dtype is that of the type that they are stored as: bool, intN or uintN of the next power of two of bytes (uint16
        for ``uint(12)``), float16, float32 (``tf(32)``, too) or float64; formats that numpy lacks (bfloat16, ``fpe6m9``,
        ``fpe7m8``) are uint16.

        Raises Error if there are no data, or the file that they are in was changed.
        """
        if self._source is None:
            raise Error(f"{self._called()}: its data were not loaded")
        tensor = self._tensor()
        return self._source.view().view(tensor.element_dtype._numpy()).reshape(tensor.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the data to numpy, as `data` does."""
        import numpy as np

        data = self.data()
        if dtype is not None and np.dtype(dtype) != data.dtype:
            return data.astype(dtype)
        return data.copy() if copy else data

    def _called(self) -> str:
        return f"parameters {self._v_id}" + (f" ({self._name})" if self._name else "")


def _as_array(b: Buffer) -> npt.NDArray[Any]:
    import numpy as np

    if is_masked(b):
        raise Error(f"Params: {MASKED}")
    # numpy takes bytes for a text.
    return np.asarray(memoryview(b) if isinstance(b, bytes | bytearray) else b)


def _scalar_of(dtype: np.dtype[Any]) -> ScalarType:
    """Return the scalar type that is like numpy's. Raises Error if none is."""
    bits = dtype.itemsize * 8
    if dtype.kind == "b":
        return BoolType()
    if dtype.kind in "iu" and dtype.isnative:
        return IntegerType(dtype.kind == "i", bits)
    if dtype.kind == "f" and bits in (16, 32, 64) and dtype.isnative:
        return FloatType._of("fp", bits)
    raise Error(f"no type of networks is like numpy's {dtype}")
