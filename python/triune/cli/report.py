"""``triune report``: what a package costs on its device, as a page with pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from triune._kinds import ICRAFT, PACKAGE, require
from triune.cli.profile import add_package


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="draw what a package costs on its device",
        description="Deploy a package without running it, and write one self-contained HTML page: timeline, roofline, "
        "memory map, cycles per operator, and the table.",
    )
    add_package(parser)
    parser.add_argument("-o", "--output", metavar="FILE.html", type=Path, required=True, help="where the page goes")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune.profiling import profile

    require(options.package, (PACKAGE, ICRAFT), "report")
    profile(options.package, clock_mhz=options.clock).write_report(options.output)
    print(options.output)
    return 0
