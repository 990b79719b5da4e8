"""``triune profile``: what a package costs on its device, or several do on one, without running them."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TypeVar

from triune._kinds import ICRAFT, PACKAGE, require
from triune.cli.arguments import finite, positive
from triune.cli.files import write_files
from triune.profiling import Composition, OnCores, Profile, Workload, compose, on_cores, profile
from triune.profiling._cores import MODES

UNITS = ("cycles", "us", "ms")
"""What the table can give times in."""

T = TypeVar("T")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "profile",
        help="show what a package costs on its device, or several on one device",
        description="Deploy a package without running it, and show modelled cycles per operator, what bounds each, and "
        "the memory plan. Numbers of 100 000 and above are rounded in the table, in no file. With several packages, or "
        "--instances, show what instances of them on one device do to each other: throughput, latency, and how busy cores "
        "and host link are. With --cores, show what images cost that several cores work on together.",
    )
    parser.add_argument(
        "packages",
        metavar="DIR",
        type=Path,
        nargs="+",
        help="packages: their directories or model.json files; or a network document with commands",
    )
    add_clock(parser)
    parser.add_argument(
        "--unit", choices=UNITS, help="times in the table: cycles (default), us or ms; for a single package"
    )
    parser.add_argument(
        "--instances", metavar="N,...", type=counts, help="instances of each package on the device (default: 1 each)"
    )
    parser.add_argument(
        "--rate",
        metavar="HZ,...",
        type=rates,
        help="calls per second of each instance of each package; 0 (default): the next call when a run has ended",
    )
    parser.add_argument(
        "--depth", metavar="N", type=positive, help="runs of an instance under way at once (default: 1)"
    )
    parser.add_argument("--time", metavar="MS", type=positive, help="of the device's time to look at (default: 100)")
    parser.add_argument(
        "--cores", metavar="N", type=positive, help="cores that work on images of a single package together, at most"
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        help="how: pipelined, each has some of the commands, or split, they share each command (default: show both)",
    )
    parser.add_argument(
        "--csv",
        metavar="FILE",
        type=Path,
        help="write a line per operator, instance, or task of a core; - for standard output",
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write totals and all rows")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write a Chrome trace, which ui.perfetto.dev opens")
    parser.add_argument(
        "--memory-snapshot",
        metavar="FILE",
        type=Path,
        help="write the memory plan of a single package as a pickle, which pytorch.org/memory_viz opens",
    )
    parser.set_defaults(command=_run)


def add_package(parser: argparse.ArgumentParser) -> None:
    """Add the package and the clock."""
    parser.add_argument("package", metavar="DIR", type=Path, help="the package's directory, or its model.json")
    add_clock(parser)


def add_clock(parser: argparse.ArgumentParser) -> None:
    """Add the clock."""
    parser.add_argument("--clock", metavar="MHZ", type=positive, help="the core's clock (default: the device's)")


def counts(text: str) -> list[int]:
    """Read numbers of at least 1, with commas between."""
    return [positive(each) for each in text.split(",")]


def rates(text: str) -> list[float | None]:
    """Read rates, with commas between; 0 stands for none."""
    found = [finite(each) for each in text.split(",")]
    if min(found) < 0:
        raise argparse.ArgumentTypeError(f"expected rates of at least 0, got {text}")
    return [each or None for each in found]


def _run(options: argparse.Namespace) -> int:
    for package in options.packages:
        require(package, (PACKAGE, ICRAFT), "profile")
    if options.cores or options.mode:
        return _shared(options)
    found = _composed(options) if _is_composition(options) else _profiled(options)
    people = write_files(
        (options.csv, found.write_csv),
        (options.json, found.write_json),
        (options.trace, found.write_trace),
        *([(options.memory_snapshot, found.write_memory_snapshot)] if isinstance(found, Profile) else []),
    )
    # A pipe has no width: what reads it gets the table's own.
    width = shutil.get_terminal_size((100, 24)).columns if people.isatty() else 100
    table = found.table(width, options.unit) if isinstance(found, Profile) and options.unit else found.table(width)
    print(table, file=people)
    return 0


def _is_composition(options: argparse.Namespace) -> bool:
    own = (options.instances, options.rate, options.depth, options.time)
    return len(options.packages) > 1 or any(each is not None for each in own)


def _shared(options: argparse.Namespace) -> int:
    if _is_composition(options) or options.unit or options.memory_snapshot:
        raise ValueError("--cores and --mode are for a single package, and no other option than --clock and files")
    if not options.mode and (options.csv or options.json or options.trace):
        raise ValueError("--cores: files are of one mode; add --mode pipelined or --mode split")
    modes = [options.mode] if options.mode else MODES
    found: list[OnCores] = [
        on_cores(options.packages[0], options.cores, mode=mode, clock_mhz=options.clock) for mode in modes
    ]
    people = write_files(
        (options.csv, found[0].write_csv),
        (options.json, found[0].write_json),
        (options.trace, found[0].write_trace),
    )
    width = shutil.get_terminal_size((100, 24)).columns if people.isatty() else 100
    print("\n\n".join(each.table(width) for each in found), file=people)
    return 0


def _profiled(options: argparse.Namespace) -> Profile:
    return profile(options.packages[0], clock_mhz=options.clock)


def _composed(options: argparse.Namespace) -> Composition:
    if options.unit:
        raise ValueError("--unit is for the table of a single package")
    if options.memory_snapshot:
        raise ValueError("--memory-snapshot is for a single package")
    instances = _each("--instances", options.instances or [1], options.packages)
    rate = _each("--rate", options.rate or [None], options.packages)
    workloads = [
        Workload(package, instances=count, rate=hertz, depth=options.depth or 1)
        for package, count, hertz in zip(options.packages, instances, rate, strict=True)
    ]
    return compose(workloads, seconds=(options.time or 100) / 1000, clock_mhz=options.clock)


def _each(name: str, values: list[T], packages: list[Path]) -> list[T]:
    """Return a value per package; a single one is for all."""
    if len(values) == 1:
        return values * len(packages)
    if len(values) != len(packages):
        expected = "1 value" if len(packages) == 1 else f"1 or {len(packages)} values, one per package"
        raise ValueError(f"{name}: expected {expected}, got {len(values)}")
    return values
