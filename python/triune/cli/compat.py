"""``triune compat run``: an unchanged vendor program, on Triune."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path

from triune.compat import ICRAFT, install

VENDORS: dict[str, str | tuple[str, ...]] = {
    "axelera": "axelera.runtime",
    "icraft": ICRAFT,
    "megenginelite": "megenginelite",
}
"""Front ends with vendor import names, and the names."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser("compat", help="run vendor programs unchanged")
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    run = verbs.add_parser(
        "run",
        help="run a Python program with the vendors' import names",
        description="Run a Python program, or with -m a module, in which the vendors' import names mean Triune.",
    )
    run.add_argument("--force", action="store_true", help="go in front of a vendor package that is installed")
    run.add_argument("-m", dest="module", action="store_true", help="PROGRAM is the name of a module")
    run.add_argument("program", metavar="PROGRAM", help="the program's file")
    run.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="the program's own arguments")
    run.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    if not options.module and not Path(options.program).exists():
        raise FileNotFoundError(f"{options.program}: there is no such program")
    for vendor, module in VENDORS.items():
        install(vendor, module, force=options.force, environment=True)
    sys.argv = [options.program, *options.arguments]
    # What python itself puts first: the program's directory, or for a module the working directory.
    sys.path.insert(0, "" if options.module else str(Path(options.program).resolve().parent))
    try:
        if options.module:
            runpy.run_module(options.program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(options.program, run_name="__main__")
    except Exception as error:
        # The program's own failure, shown as python shows it: without the frames that lead to it.
        traceback = error.__traceback__
        while traceback and traceback.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
            traceback = traceback.tb_next
        if traceback is None and isinstance(error, ImportError | OSError):
            # It never began: there is no such module, or nothing in it to run.
            raise
        sys.excepthook(type(error), error.with_traceback(traceback), traceback)
        return 1
    return 0
