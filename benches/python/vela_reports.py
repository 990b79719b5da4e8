"""Vela's reports, layer by layer: run it, read what it writes, keep it as a table.

Vela (PyPI: `ethos-u-vela`, Apache 2.0) is Arm's compiler for Ethos-U; it estimates what each operator costs. It is a program
of its own here, and may lie in another environment. Each network is compiled twice: with all in the SRAM, where the
column of the NPU's cycles is the array's work alone, and with the memories of Vela's published configuration, where that
column holds waits for weights, too.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from vela_models import tflite
from vela_networks import Network

CONFIGURATION = "Arm/vela.ini"
"""The configuration that comes with Vela."""

SYSTEMS = {
    "ethos-u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "ethos-u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
}
"""System and memory mode of that configuration."""

ALONE = "Sram_Only"
"""The memory mode in which the array does not wait."""

_KINDS = {
    "Conv2D": "conv",
    "DepthwiseConv2D": "depthwise",
    "FullyConnected": "dense",
    "Add": "add",
    "MaxPool": "maxpool",
    "AvgPool": "avgpool",
    "MemoryCopy": "concat",
}


class Report(NamedTuple):
    """What Vela says of a layer."""

    array: int
    """Cycles of the array or the output unit, without waits."""
    total: int
    """Cycles with the published memories."""
    near: int
    """Of them, those that the SRAM is busy."""
    far: int
    """Of them, those that flash or DRAM is busy."""
    macs: int
    """Multiply-accumulates, as Vela counts them."""


Reports = dict[tuple[str, str, str], Report]
"""By device, network and layer."""


class VelaError(Exception):
    """Vela is absent, or refuses."""


def find(given: str | None) -> str:
    """Return the program; raises `VelaError`, if there is none."""
    beside = Path(sys.executable).with_name("vela")
    found = shutil.which(given or "vela") or (None if given or not beside.exists() else str(beside))
    if found is None:
        raise VelaError(
            f"{given or 'vela'}: there is no such program; `python -m venv vela && vela/bin/pip install ethos-u-vela` gets it, "
            "--vela vela/bin/vela takes it; --table tests/models/vela_reports.csv compares with earlier reports"
        )
    return found


def version(vela: str) -> str:
    """Return Vela's version."""
    return subprocess.run([vela, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def report(vela: str, device: str, network: Network) -> dict[str, Report]:
    """Run Vela; return its report of each layer."""
    system, memory = SYSTEMS[device[:9]]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / f"{network.name}.tflite"
        model.write_bytes(tflite(network))
        alone, whole = (_rows(vela, device, model, system, mode) for mode in (ALONE, memory))
    array, found = _by_layer(network, alone), _by_layer(network, whole)
    return {
        name: Report(array.get(name, [0])[0], total, near, far, macs)
        for name, (_, total, near, far, macs) in found.items()
    }


_Row = tuple[str, str, list[int]]


def _rows(vela: str, device: str, model: Path, system: str, memory: str) -> list[_Row]:
    """Return Vela's rows: operator, tensor, and cycles of NPU, in all, of SRAM, of flash and DRAM, and multiply-accumulates."""
    output = model.parent / memory
    command = [vela, str(model), "--output-dir", str(output), "--accelerator-config", device, "--verbose-performance"]
    command += ["--config", CONFIGURATION, "--system-config", system, "--memory-mode", memory]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise VelaError(f"{model.stem} for {device}: {(done.stderr or done.stdout).strip()[-500:]}")
    rows: list[_Row] = []
    with open(output / f"{model.stem}_per-layer.csv", newline="") as file:
        for row in csv.DictReader(file):
            numbers = [row[key] for key in ("NPU", "Op Cycles", "SRAM AC")]
            far = sum(int(row[key]) for key in ("DRAM AC", "OnFlash AC", "OffFlash AC"))
            rows.append((row["NNG Operator"], row["Name"], [*map(int, numbers), far, int(row["MAC Count"])]))
    return rows


def _by_layer(network: Network, rows: Iterable[_Row]) -> dict[str, list[int]]:
    """Add rows up by layer. What is written into a joint bears its name, and copies of the input are the first layer's."""
    layers = {layer.name: layer for layer in network.layers}
    first = network.layers[0].name
    found: dict[str, list[int]] = {}
    for operator, tensor, numbers in rows:
        kind, name = _KINDS.get(operator), tensor
        if kind is None:  # a function within the operator before, which costs nothing
            if numbers[1]:
                raise VelaError(f"{network.name}: Vela's operator {operator} belongs to no layer of the network")
            continue
        if name in layers and layers[name].kind == "concat" and kind != "concat":
            name = next(part for part in layers[name].inputs if layers[part].kind == kind and part not in found)
        if name not in layers:
            name = first
        if operator == "MemoryCopy":  # whose elements Vela counts as multiply-accumulates
            numbers = [*numbers[:-1], 0]
        found[name] = [a + b for a, b in zip(found.get(name, [0] * len(numbers)), numbers, strict=True)]
    return found


def write(path: Path, reports: Reports, made_by: str) -> None:
    """Keep reports as a table."""
    systems = "; ".join(f"{family}: {system}, {memory}" for family, (system, memory) in SYSTEMS.items())
    with open(path, "w", newline="") as file:
        file.write(f"# ethos-u-vela {made_by}, {CONFIGURATION}; {systems}; array: {ALONE}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["device", "network", "layer", *Report._fields])
        writer.writerows([*key, *found] for key, found in sorted(reports.items()))


def read(path: Path) -> Reports:
    """Return the reports of a table."""
    with open(path, newline="") as file:
        lines = (line for line in file if not line.startswith("#"))
        return {
            (row["device"], row["network"], row["layer"]): Report(*(int(row[name]) for name in Report._fields))
            for row in csv.DictReader(lines)
        }
