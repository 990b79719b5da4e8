"""Snapshots: a session in one file, independent of the files that its network was loaded from.

A head of 96 bytes, a description as JSON, the data of the parameters; docs/icraft.md has the form. The digest is compared before
anything of the file is used; data of parameters are read when they are touched, and refused if the file was changed since.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from triune._files import replaced
from triune.errors import FileError
from triune.icraft._xir.codec import network_of
from triune.icraft._xir.errors import Error, InternalError
from triune.icraft._xir.files import Stored, _Raw, _Slice, stored
from triune.icraft._xrt.backend import Backend, made
from triune.icraft._xrt.errors import FILE, LOAD, ORDER, RANGE, TYPE, failure

if TYPE_CHECKING:
    from triune.icraft._xir.network import Network
    from triune.icraft._xir.view import NetworkView
    from triune.icraft._xrt.device import Device

__all__ = ["VERSION", "read_snapshot", "write_snapshot"]

MAGIC: Final = b"TRIUNE SNAPSHOT\n"
VERSION: Final = 1
_FACTS: Final = struct.Struct("<16sIIQQQQQ")
_HEAD: Final = struct.Struct("<16sIIQQQQQ32s")
"""The facts, and the SHA-256 of them and of everything behind the head."""
_PAGE: Final = 4096
"""Data begin at a multiple, and each parameter's at a multiple of 64."""


def write_snapshot(path: str | os.PathLike[str], view: NetworkView, backends: Sequence[Backend]) -> None:
    """Write a session's network, with the data of its parameters, and its backends' options to a file, which is replaced at once.

    Raises InternalError if parameters have no data, or the file cannot be written.
    """
    network = view.network()
    table: dict[str, list[int]] = {}
    places: list[tuple[int, Any]] = []
    end = 0
    for params in network._params():
        if params._source is None:
            if params._allow_no_data:
                continue
            raise failure(ORDER, f"dumpSnapshot: parameters {params.v_id} have no data: loadParamsFromFile")
        data = params._source.view()
        start = -(-end // 64) * 64
        table[str(params.v_id)] = [start, data.size]
        places.append((start - end, data))
        end = start + data.size
    description = {
        "network": network._json(),
        "name": network.name,
        "ops": [op.op_id for op in view.ops],
        "params": table,
        "backends": [
            {
                "class": backend.typeKey(),
                "ops": [op.op_id for op in backend.network_view.ops],
                "options": backend._saved(),
            }
            for backend in backends
        ],
    }
    text = json.dumps(description, separators=(",", ":"), sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    text += b" " * (-(_HEAD.size + len(text)) % _PAGE)
    first = _HEAD.size + len(text)
    facts = _FACTS.pack(MAGIC, VERSION, 0, first + end, _HEAD.size, len(text), first, end)
    digest = hashlib.sha256(facts + text)
    for gap, data in places:
        digest.update(bytes(gap))
        digest.update(data)
    try:
        with replaced(path) as file:
            file.write(facts + digest.digest() + text)
            for gap, data in places:
                file.write(bytes(gap))
                file.write(data)
    except FileError as error:
        raise failure(FILE, f"dumpSnapshot: {error}") from None


def read_snapshot(
    path: str | os.PathLike[str], types: Sequence[type], devices: Sequence[Device]
) -> tuple[Network, list[int], list[Backend]]:
    """Return the network of a snapshot, the numbers of the session's operations, and the backends, bound and not applied.

    Raises InternalError if the file cannot be read, is no snapshot, of another version, damaged, or of other backends than
    `types`.
    """
    where = f"CreateWithSnapshot({os.fspath(path)!r})"
    found, description, first = _opened(path, where)
    try:
        network = _network(found, description, first, os.fspath(path))
        ops = [int(op) for op in description["ops"]]
        saved = description["backends"]
        classes = [str(each["class"]) for each in saved]
        network.view(ops)
        views = [network.view([int(op) for op in each["ops"]]) for each in saved]
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, Error) as error:
        if isinstance(error, InternalError):
            raise
        raise failure(LOAD, f"{where}: the description is not that of a session: {error!r:.200}") from None
    if len(types) != len(devices):
        raise failure(RANGE, f"{where}: {len(types)} backends and {len(devices)} devices; each backend has one")
    given = [made(kind) for kind in types]
    if [backend.typeKey() for backend in given] != classes:
        names = ", ".join(key.rsplit("::", 1)[-1].removesuffix("Node") for key in classes)
        raise failure(TYPE, f"{where}: the snapshot is of the backends {names}, in this order")
    for backend, own, each, device in zip(given, views, saved, devices, strict=True):
        backend.init(own, device)
        try:
            backend._restore(dict(each["options"]))
        except (KeyError, TypeError, ValueError) as error:
            raise failure(LOAD, f"{where}: options of {type(backend).__name__}: {error!r:.200}") from None
        backend._snapshot = True
    return network, ops, given


def _opened(path: str | os.PathLike[str], where: str) -> tuple[Stored, dict[str, Any], int]:
    """Return the file, checked, its description, and where data begin."""
    try:
        return _checked(stored(path), where)
    except (FileError, OSError) as error:
        raise failure(FILE, f"{where}: {error}") from None


def _checked(file: Stored, where: str) -> tuple[Stored, dict[str, Any], int]:
    size = len(file)
    if size < _HEAD.size:
        raise failure(LOAD, f"{where}: {size} bytes are no snapshot")
    head = file.read(0, _HEAD.size).data
    magic, version, _, length, start, described, first, data, digest = _HEAD.unpack(head)
    if magic != MAGIC:
        raise failure(LOAD, f"{where}: this is no snapshot of a session")
    if version != VERSION:
        raise failure(LOAD, f"{where}: a snapshot of version {version}; version {VERSION} can be read: dump it again")
    if length != size:
        kind = "cut off" if size < length else "longer than it was"
        raise failure(LOAD, f"{where}: the file is {kind}: {size} bytes instead of {length}")
    if start != _HEAD.size or first != start + described or first + data != size:
        raise failure(LOAD, f"{where}: the head is damaged")
    found = hashlib.sha256(head[: _FACTS.size])
    for piece in file.pieces(_HEAD.size):
        found.update(piece)
    if found.digest() != digest:
        raise failure(LOAD, f"{where}: the file is damaged: its digest is another one")
    try:
        description = json.loads(file.read(start, described).tobytes())
    except (ValueError, RecursionError) as error:
        raise failure(LOAD, f"{where}: the description is no JSON: {error!r:.200}") from None
    if not isinstance(description, dict):
        raise failure(LOAD, f"{where}: the description is not that of a session")
    return file, description, first


def _network(file: Stored, description: dict[str, Any], first: int, path: str) -> Network:
    network = network_of(json.dumps(description["network"]), path)
    raw = _Raw(file, path, None)
    table = {int(number): (int(start), int(size)) for number, (start, size) in description["params"].items()}
    for params in network._params():
        place = table.get(params.v_id)
        if place is None:
            if params._allow_no_data:
                continue
            raise Error(f"parameters {params.v_id} have no data in it")
        start, size = place
        if start < 0 or size != params.storageBytes() or first + start + size > len(file):
            raise Error(f"parameters {params.v_id}: {size} bytes at {start}, their type takes {params.storageBytes()}")
        params._source, params._lazy = _Slice(raw, first + start, size), True
    return network
