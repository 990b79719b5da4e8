"""A network's operations with commands as the core has them: read once for each state of the network."""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import TYPE_CHECKING

from triune import _fork, _native
from triune.icraft._host.document import parameters
from triune.icraft._xir.objects import compact, plain
from triune.icraft._xrt.errors import BACKEND, ORDER, failure

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network

__all__ = ["Hard", "hard_network"]

_LOCK = threading.RLock()
_fork.keep_free(_LOCK)
_KNOWN: dict[int, tuple[weakref.ref[Network], int, Hard]] = {}


class Hard:
    """The operations of one network."""

    def __init__(self, native: _native.HardNetwork, name: str) -> None:
        self.native, self.name = native, name
        self._digest: bytes | None = None

    def digest(self, deployment: _native.Deployment) -> bytes:
        """Return what tells this network's weights from another's."""
        if self._digest is None:
            self._digest = hashlib.sha256(deployment.weights).digest()
        return self._digest


def hard_network(network: Network) -> Hard:
    """Return a network's operations with commands.

    Raises InternalError if there are none, their parameters have not been loaded, or the network does not hold together.
    """
    with _LOCK:
        known = _KNOWN.get(id(network))
        if known is not None and known[0]() is network and known[1] == _state(network):
            return known[2]
    try:
        native = _native.HardNetwork(compact(plain(network)).encode(), parameters(network.ops))
    except _native.Error as error:
        if any(not params.hasData() for op in network.ops for params in op.paramsAttrs(True)):
            raise failure(ORDER, f"network {network.name!r}: parameters have no data: loadParamsFromFile") from None
        raise failure(BACKEND, f"network {network.name!r}: {error}") from None
    found = Hard(native, network.name)
    key = id(network)

    def forget(_: object) -> None:
        _KNOWN.pop(key, None)

    with _LOCK:
        _KNOWN[key] = (weakref.ref(network, forget), _state(network), found)
    return found


def _state(network: Network) -> int:
    """Return what changes with the network, and when its parameters get their data."""
    held = sum(params.hasData() for op in network.ops for params in (*op.paramsInputs(), *op.paramsAttrs(True)))
    return hash((network._version, held))
