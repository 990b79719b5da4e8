"""Cycles per layer of Ethos-U55 and U65 by Triune's device files and by Arm's Vela, as Markdown tables, one per device.

    python benches/python/compare_vela.py [--vela PROGRAM] [--device NAME ...] [--network WORD] [--layers] [--each]
    python benches/python/compare_vela.py --table tests/models/vela_reports.csv  # without Vela, against its earlier reports

Neither is the hardware: Vela's cycles are an estimate, too, by those who know it. `array` compares what the array and the
vector unit take if they never wait, `time` all of it, with the memories of Vela's published configuration. An error is
Triune's cycles over Vela's, less one. Sums that Triune computes within a convolution are compared together with it.
`--layers` adds networks of one layer each, `--each` prints every layer, `--write FILE` keeps Vela's reports. A network and
device take Vela two seconds or so.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from vela_models import onnx_model
from vela_networks import Network, single_layers, whole_networks
from vela_reports import Report, Reports, VelaError, find, read, report, version, write

import triune
from triune.profiling import Operator, profile

ROOT = Path(__file__).resolve().parents[2]
DEVICES = {path.stem: path for path in sorted((ROOT / "examples" / "devices").glob("ethos-u*.toml"))}


class Row(NamedTuple):
    """One operator of Triune's, and the layers that it computes."""

    device: str
    network: str
    layers: tuple[str, ...]
    ours: Operator
    theirs: Report

    @property
    def array(self) -> tuple[int, int]:
        """Cycles without waits, ours and theirs."""
        return self.ours.compute, self.theirs.array

    @property
    def time(self) -> tuple[int, int]:
        """Cycles in all, ours and theirs."""
        return self.ours.compute + self.ours.stall + self.ours.control, self.theirs.total


def sharing(network: Network, operators: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the layers that each operator computes: a layer without one is computed by that of its latest input."""
    known = set(operators)
    place = {layer.name: index for index, layer in enumerate(network.layers)}
    owner: dict[str, str] = {}
    for layer in network.layers:
        before = [owner[name] for name in layer.inputs if name in owner]
        owner[layer.name] = layer.name if layer.name in known else max(before, key=lambda name: place[name])
    return {name: tuple(layer for layer, of in owner.items() if of == name) for name in dict.fromkeys(owner.values())}


def rows(device: str, network: Network, reports: Reports) -> list[Row]:
    """Compile a network for a device, and lay its operators beside Vela's layers."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.onnx"
        model.write_bytes(onnx_model(network))
        package = triune.compile(model, target=DEVICES[device], output=Path(folder) / "package")
        operators = {operator.name: operator for operator in profile(package).operators}
    found = []
    for name, layers in sharing(network, operators).items():
        theirs = [reports[key] for layer in layers if (key := (device, network.name, layer)) in reports]
        total = Report(*(sum(numbers) for numbers in zip(*theirs, strict=True))) if theirs else Report(0, 0, 0, 0, 0)
        found.append(Row(device, network.name, layers, operators[name], total))
    return found


class Errors(NamedTuple):
    """How far cycles are apart."""

    layers: int
    median: float
    """Of the layers' errors, without signs."""
    largest: float
    total: float
    """The error of the sum."""
    rank: float
    """Spearman's correlation of the layers' cycles; NaN below three layers."""


def errors(pairs: Sequence[tuple[int, int]]) -> Errors:
    """Compare pairs of cycles, ours and theirs; what takes no time in either is left out."""
    both = [(ours, theirs) for ours, theirs in pairs if ours and theirs]
    each = [ours / theirs - 1 for ours, theirs in both]
    ours, theirs = (sum(column) for column in zip(*pairs, strict=True))
    return Errors(
        len(both), statistics.median(map(abs, each)), max(each, key=abs), ours / theirs - 1, rank_correlation(both)
    )


def mean_total(networks: Iterable[Sequence[Row]], kind: str) -> float:
    """Return the mean error of networks' sums, without signs; `kind` is `array` or `time`."""
    return statistics.mean(abs(errors([getattr(row, kind) for row in found]).total) for found in networks)


def rank_correlation(pairs: Sequence[tuple[int, int]]) -> float:
    """Return Spearman's rank correlation; equal values share their ranks' mean."""
    if len(pairs) < 3:
        return float("nan")
    ranks = []
    for column in zip(*pairs, strict=True):
        values, index, counts = np.unique(column, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        ranks.append(((ends - counts + ends - 1) / 2)[index])
        if len(values) == 1:
            return float("nan")
    return float(np.corrcoef(ranks)[0, 1])


HEAD = """| network | layers | array: median | largest | total | rank | time: median | largest | total | rank |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""


def line(name: str, found: Sequence[Row]) -> str:
    """Return a line of the table."""
    array, time = errors([row.array for row in found]), errors([row.time for row in found])
    cells = [
        cell
        for each in (array, time)
        for cell in (f"{each.median:.0%}", f"{each.largest:+.0%}", f"{each.total:+.0%}", f"{each.rank:.2f}")
    ]
    return f"| {name} | {time.layers} | " + " | ".join(cells) + " |"


def layer_lines(found: Sequence[Row]) -> list[str]:
    """Return a line per operator."""
    lines = ["| layers | array | Vela | error | time | Vela | error |", "|---|---:|---:|---:|---:|---:|---:|"]
    for row in found:
        cells = [
            cell
            for ours, theirs in (row.array, row.time)
            for cell in (str(ours), str(theirs), f"{ours / theirs - 1:+.0%}" if theirs else "")
        ]
        lines.append(f"| {row.network}: {' + '.join(row.layers)} | " + " | ".join(cells) + " |")
    return lines


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vela", help="the program, if it is not on the path")
    parser.add_argument("--device", nargs="+", choices=DEVICES, default=list(DEVICES))
    parser.add_argument("--network", default="", help="only networks with this in their names")
    parser.add_argument("--layers", action="store_true", help="networks of one layer each, too")
    parser.add_argument("--each", action="store_true", help="every layer")
    parser.add_argument("--table", type=Path, help="reports that were written before, instead of Vela")
    parser.add_argument("--write", type=Path, help="where to keep Vela's reports")
    return parser.parse_args()


def main() -> int:
    """Compare."""
    options = arguments()
    whole, single = whole_networks(), list(single_layers()) if options.layers else []
    wanted = [network for network in whole + single if options.network in network.name]
    if not wanted:
        print(f"no network has {options.network!r} in its name; there are", *(n.name for n in whole), file=sys.stderr)
        return 2
    try:
        reports = read(options.table) if options.table else asked(options, wanted)
    except (VelaError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    names = {network.name for network in whole}
    for device in options.device:
        found = {network.name: rows(device, network, reports) for network in wanted}
        print(f"\n## {device}\n\n{HEAD}")
        for name in (name for name in found if name in names):
            print(line(name, found[name]))
        if alone := [row for name, each in found.items() if name not in names for row in each]:
            print(line("layers alone", alone))
        print(line("all", [row for each in found.values() for row in each]))
        if sums := [found[name] for name in found if name in names]:
            array, time = (mean_total(sums, kind) for kind in ("array", "time"))
            print(
                f"\nOf the networks' sums, the mean error is {array:.1%} of the array's cycles and {time:.1%} of all."
            )
        if options.each:
            print("", *layer_lines([row for each in found.values() for row in each]), sep="\n")
    return 0


def asked(options: argparse.Namespace, wanted: Sequence[Network]) -> Reports:
    """Run Vela for all devices and networks."""
    vela = find(options.vela)
    print(f"Vela {version(vela)}")
    reports = {
        (device, network.name, layer): found
        for device in options.device
        for network in wanted
        for layer, found in report(vela, device, network).items()
    }
    if options.write:
        write(options.write, reports, version(vela))
    return reports


if __name__ == "__main__":
    sys.exit(main())
