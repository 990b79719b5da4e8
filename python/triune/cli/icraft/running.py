"""Networks of any step on backends, and one step's values beside another's."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from triune._files import read_text, replaced
from triune.cli.data import IMAGES, Input, load
from triune.cli.icraft.configuration import STEPS, Configuration
from triune.errors import ArgumentError
from triune.icraft import buyibackend, host_backend, xrt, zg330backend
from triune.icraft.host_backend import Ftmp2Tensor, HostBackend
from triune.icraft.xir import Network, QuantizedType
from triune.icraft.xrt import HostDevice, Session, Tensor

__all__ = ["compare_steps", "run_network"]


def _load(file: Path, raw: Path | None = None) -> Network:

    network = Network.CreateFromJsonFile(file)
    network.loadParamsFromFile(raw or file.with_suffix(".raw"))
    return network


def _given(configuration: Configuration, network: Network, words: str) -> list[Tensor]:
    """Return a network's inputs: files with `;` between them, pictures by [parse]'s numbers, else raw elements."""

    values = network.view(0).inputs()
    files = [Path(part.strip()) for part in words.split(";") if part.strip()]
    if len(files) != len(values):
        raise ArgumentError(f"input: {len(files)} files for the network's {len(values)} inputs")
    tensors = []
    for file, value in zip(files, values, strict=True):
        dtype = value.tensorType()
        if file.suffix.lower() not in IMAGES:
            tensors.append(Ftmp2Tensor(str(file), value))
            continue
        pixels = configuration.pixels if "parse" in configuration.sections else None
        if pixels is None:
            raise ArgumentError(f"{configuration.file}: pictures become numbers as [parse] says, which is missing")
        batch, height, width, channels = dtype.shape
        (array,) = load(file, [Input("input", (batch, channels, height, width), "float32")], pixels).values()
        tensors.append(Tensor(np.ascontiguousarray(array.transpose(0, 2, 3, 1)), dtype))
    return tensors


def _session(configuration: Configuration, network: Network, text: str) -> Session:
    """Return a session on backends as ``BY,<url>;Host`` says them."""

    kinds: dict[str, Any] = {
        "BY": buyibackend.BuyiBackend,
        "BUYI": buyibackend.BuyiBackend,
        "ZG330": zg330backend.ZG330Backend,
        "ZG": zg330backend.ZG330Backend,
        "HOST": host_backend.HostBackend,
    }
    backends, devices = [], []
    for part in filter(None, (one.strip() for one in text.split(";"))):
        name, _, url = (word.strip() for word in part.partition(","))
        if name.upper() in ("WL170", "WL"):
            from triune.icraft._xrt.wl170 import WHY

            raise ArgumentError(f"{configuration.file}: [run] backends: {WHY}")
        if name.upper() not in kinds:
            raise ArgumentError(f"{configuration.file}: [run] backends: {name!r} is none of BY, ZG330, Host")
        backends.append(kinds[name.upper()])
        devices.append(xrt.Device.Open(url) if url else xrt.HostDevice.Default())
    return xrt.Session.Create(backends, network.view(0), devices)


def run_network(configuration: Configuration) -> None:

    section = configuration.section("run")
    if "json" in section:
        file = Path(configuration.text("run", "json"))
    else:
        file = Path(configuration.text("run", "jr_path")) / f"{configuration.text('run', 'network')}.json"
    network = _load(file, Path(section["raw"]) if "raw" in section else None)
    text = section.get("backends", section.get("backend", "Host"))
    session = _session(configuration, network, str(text))
    for backend in session.backends:
        if isinstance(backend, HostBackend):
            backend.setFakeQf(configuration.flag("run", "fake_qf"))
        elif configuration.flag("run", "compress") and hasattr(backend, "compressFtmp"):
            backend.compressFtmp()
    session.setLogIO(configuration.flag("run", "log_io"))
    session.setLogTime(configuration.flag("run", "log_time"))
    session.enableTimeProfile(configuration.flag("run", "log_time"))
    folder = Path(str(section.get("log_path", ".icraft/logs"))) / network.name
    form = str(section.get("dump_format", "SFB"))
    chosen = {
        int(one) for one in str(section.get("dump_ftmp", "")).replace(";", ",").split(",") if one.strip().isdigit()
    }
    if section.get("dump_ftmp") and not chosen:
        session.setDumpOutputs(True, str(folder / f"ftmp{form}"), form)
    session.apply()
    lines = [str(section.get("input", ""))]
    if lines[0].lower().endswith(".txt"):
        lines = [line for line in read_text(lines[0]).splitlines() if line.strip()]
    ids = [value.v_id for value in network.view(0).outputs()]
    for number, line in enumerate(lines):
        inputs = _given(configuration, network, line)
        own = folder if len(lines) == 1 else folder / str(number)
        if chosen:
            session.setPostCallBack(partial(_dump, chosen, own, form))
        outputs = session.forward(inputs)
        for v_id, tensor in zip(ids, outputs, strict=True):
            shape = ",".join(map(str, tensor.dtype().shape))
            if configuration.flag("run", "dump_output"):
                _write(tensor, own / f"ftmp{form}" / f"{v_id}.ftmp", form)
            print(f"{line}: output {v_id} ({shape})")
        print(f"{line}: {session.totalTime():.3f} ms")


def _dump(
    chosen: set[int], folder: Path, form: str, _session: Any, op: Any, _backend: Any, tensors: Sequence[Tensor]
) -> None:
    for value, tensor in zip(op.outputs, tensors, strict=False):
        if value.v_id in chosen or op.op_id in chosen:
            _write(tensor, folder / f"ftmp{form}" / f"{value.v_id}.ftmp", form)


def _write(tensor: Tensor, path: Path, form: str) -> None:

    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as file:
        tensor.to(HostDevice.MemRegion()).dump(file, form)


def _reals(network: Network, session: Session, inputs: list[Tensor]) -> dict[int, Any]:
    """Return every value of a network as reals, channels in one piece, by number."""

    found: dict[int, Any] = {}

    def keep(_session: Any, op: Any, _backend: Any, tensors: Sequence[Tensor]) -> None:
        for value, tensor in zip(op.outputs, tensors, strict=False):
            file = io.BytesIO()
            tensor.to(HostDevice.MemRegion()).dump(file, "SFB")
            found[value.v_id] = np.frombuffer(file.getvalue(), np.float32)

    session.setPostCallBack(keep)
    session.apply()
    session.forward(inputs)
    return found


def compare_steps(configuration: Configuration, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a row for each value of the parsed network: its operator, and its cosine and largest error in each later step.

    A value of a later step is the same one where it has the same number. One in front of an activation that a later step
    computes together with it, which shows in both having the same scale, stands for the activation's result, and is compared
    with that.

    Raises ArgumentError if there are not two steps to compare.
    """

    section = configuration.sections.get("show", configuration.sections.get("run", {}))
    files = {step: configuration.place(step) for step in STEPS if step in configuration.sections}
    files = {step: file for step, file in files.items() if file.exists()}
    if len(files) < 2:
        raise ArgumentError(
            f"{configuration.file}: there are not two steps to compare; triune icraft compile writes them"
        )
    values: dict[str, dict[int, Any]] = {}
    networks = {step: _load(file) for step, file in files.items()}
    words = str(section.get("input", ""))
    random = np.random.default_rng(0)
    for step, network in networks.items():
        progress(f"running {files[step].name}")
        if words:
            inputs = _given(configuration, network, words)
        else:
            random = np.random.default_rng(0)
            types = [value.tensorType() for value in network.view(0).inputs()]
            inputs = [Tensor(random.random(one.shape, np.float32), one) for one in types]
        session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
        values[step] = _reals(network, session, inputs)
    first, *others = networks
    rows = []
    for op in networks[first].ops:
        for value in op.outputs:
            row: dict[str, Any] = {"v_id": value.v_id, "op_id": op.op_id, "operator": _kind(op)}
            for step in others:
                meant = _stands_for(networks[step], value.v_id)
                left, right = values[first].get(meant), values[step].get(value.v_id)
                if left is not None and right is not None and left.size == right.size:
                    row[step] = {
                        "cosine": _cosine(left, right),
                        "max_error": float(np.abs(left - right).max(initial=0.0)),
                    }
            if len(row) > 3:
                rows.append(row)
    return rows


def _stands_for(network: Network, v_id: int) -> int:
    """Return the number of the value that one of a quantized network has the meaning of: its own, or its activation's."""
    op = next((op for op in network.ops if any(value.v_id == v_id for value in op.outputs)), None)
    takers = [] if op is None else network.getUsesOpByValueId(v_id)
    if len(takers) != 1 or not takers[0].isActivate():
        return v_id
    own, made = network.getValueById(v_id).tensorType().element_dtype, takers[0].outputs[0]
    # Reals have no scale that could tell.
    joint = isinstance(own, QuantizedType) and str(own) == str(made.tensorType().element_dtype)
    return _stands_for(network, made.v_id) if joint else v_id


def _kind(op: Any) -> str:
    return str(op.typeKey()).removesuffix("Node").rsplit("::", 1)[-1]


def _cosine(left: Any, right: Any) -> float:

    left, right = left.astype(np.float64), right.astype(np.float64)
    size = float(np.linalg.norm(left) * np.linalg.norm(right))
    return float(left @ right / size) if size else float(not left.any() and not right.any())
