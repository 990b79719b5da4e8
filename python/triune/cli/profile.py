"""``triune profile``: what a package costs on its device, without running it."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from triune.cli.compile import positive


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "profile",
        help="show what a package costs on its device",
        description="Deploy a package without running it, and show modelled cycles per operator, what bounds each, and "
        "the memory plan. Numbers of 100 000 and above are rounded in the table, in no file.",
    )
    add_package(parser)
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write a line per operator")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write totals, operators and the memory plan")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write a Chrome trace, which ui.perfetto.dev opens")
    parser.set_defaults(command=_run)


def add_package(parser: argparse.ArgumentParser) -> None:
    """Add the package and the clock."""
    parser.add_argument("package", metavar="DIR", type=Path, help="the package's directory, or its model.json")
    parser.add_argument("--clock", metavar="MHZ", type=positive, help="the core's clock (default: the device's)")


def _run(options: argparse.Namespace) -> int:
    from triune.profiling import profile

    found = profile(options.package, clock_mhz=options.clock)
    for path, write in (
        (options.csv, found.write_csv),
        (options.json, found.write_json),
        (options.trace, found.write_trace),
    ):
        if path:
            write(path)
    # A pipe has no width: what reads it gets the table's own.
    width = shutil.get_terminal_size((100, 24)).columns if sys.stdout.isatty() else 100
    print(found.table(width))
    return 0
