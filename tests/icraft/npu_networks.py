"""Compiled networks, devices and sessions for tests of the accelerators' backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from triune.icraft.buyibackend import BuyiBackend
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import ZG330Backend

URLS = {"zg330": "axi://zg330aiu", "buyi": "axi://ql100aiu"}
MOCKS = {"zg330": "mock://zg330", "buyi": "mock://ql100ai"}
BACKENDS: dict[str, Any] = {"zg330": ZG330Backend, "buyi": BuyiBackend}
SUFFIXES = {"zg330": "ZG", "buyi": "BY"}


def load(folder: Path, stage: str) -> Network:
    """Return a network of a folder that `triune.compile` wrote."""
    (path,) = folder.glob(f"*_{stage}.json")
    network = Network.CreateFromJsonFile(path)
    network.loadParamsFromFile(path.with_suffix(".raw"))
    return network


def compiled(folders: dict[str, Path], target: str) -> Network:
    """Return the network with an accelerator's commands."""
    return load(folders[target], SUFFIXES[target])


def image(network: Network, seed: int = 0) -> Tensor:
    """Return an input of random pixels."""
    shape = network.view(0).inputs()[0].tensorType().shape
    return Tensor(np.random.default_rng(seed).uniform(0, 1, shape).astype(np.float32), Layout("NHWC"))


def opened(target: str) -> Any:
    """Return a new board in this process."""
    return Device.Open(URLS[target])


def session(target: str, network: Any, device: Any = None) -> Session:
    """Return a session on an accelerator and the host, not applied yet."""
    device = opened(target) if device is None else device
    return Session.Create([BACKENDS[target], HostBackend], network, [device, HostDevice.Default()])


def on_host(tensors: list[Tensor]) -> list[npt.NDArray[Any]]:
    """Return the elements of tensors, wherever they lie."""
    return [np.array(tensor.to(HostDevice.MemRegion())) for tensor in tensors]


def expected(folders: dict[str, Path], target: str, *inputs: Tensor) -> list[npt.NDArray[Any]]:
    """Return what the host gives for the network before it has commands."""
    made = Session.Create([HostBackend], load(folders[target], "adapted").view(0), [HostDevice.Default()])
    made.apply()
    return on_host(made.forward(list(inputs)))
