"""``triune icraft``: the vendor's compiler's commands over its TOML files, one section per command.

All steps come from one compilation of the model that ``[parse]`` names: what a command writes is its step of that. A document
of an earlier step that is not what this made, edited by hand say, is an error and no input.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from triune.cli.icraft.configuration import STEPS, Configuration
from triune.cli.progress import Progress

_HELP = {
    "parse": "write the model as a network over reals",
    "optimize": "write the network with everything folded",
    "quantize": "calibrate, and write the network over integers",
    "adapt": "write the network as the accelerator has it",
    "generate": "write the accelerator's commands",
    "compile": "all five in turn",
    "run": "run a network of any step on backends",
    "show": "compare the steps with the first, value by value",
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command and those below it."""
    parser = commands.add_parser(
        "icraft",
        help="Icraft's compiler over its TOML files",
        description="Icraft's commands over the vendor's TOML files; --KEY VALUE behind the file replaces a key.",
    )
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for verb, text in _HELP.items():
        own = verbs.add_parser(verb, help=text, description=f"{text[0].upper()}{text[1:]}.")
        own.add_argument("file", metavar="FILE.toml", type=Path)
        if verb == "show":
            own.add_argument("--worst", metavar="N", type=int, default=20, help="values in the table (default: 20)")
            own.add_argument("--json", metavar="FILE", type=Path, help="write all values as JSON")
            own.add_argument("--html", metavar="FILE", type=Path, help="write a page with all values")
        else:
            own.add_argument(
                "keys", nargs=argparse.REMAINDER, help="--KEY VALUE ... of the section; --dry_run to see what it has"
            )
        own.set_defaults(command=_run, verb=verb, keys=[])


def _run(options: argparse.Namespace) -> int:
    keys = [key for key in options.keys if key != "--dry_run"]
    configuration = Configuration.read(options.file, options.verb, keys)
    if keys != options.keys:
        print(json.dumps(configuration.sections, indent=1, ensure_ascii=False, default=str))
        return 0
    from triune.cli.icraft.running import run_network
    from triune.cli.icraft.steps import write_step

    with Progress(verbose=False) as progress:
        if options.verb == "run":
            run_network(configuration)
        elif options.verb == "show":
            return _show(configuration, options, progress)
        else:
            steps = STEPS if options.verb == "compile" else (options.verb,)
            for note in configuration.without_effect(steps):
                progress.warn(note)
            for step in steps:
                print(write_step(configuration, step, progress))
    return 0


def _show(configuration: Configuration, options: argparse.Namespace, progress: Callable[[str], None]) -> int:
    from triune.cli.files import write_files
    from triune.cli.icraft.running import compare_steps

    rows = compare_steps(configuration, progress)
    steps = [step for step in STEPS if any(step in row for row in rows)]
    people = write_files(
        (options.json, lambda path: _write_text(path, json.dumps(rows, indent=1))),
        (options.html, lambda path: _write_text(path, _page(configuration.name, steps, rows))),
    )

    def least(row: Mapping[str, Any]) -> float:
        return min(float(row[step]["cosine"]) for step in steps if step in row)

    shown = sorted(rows, key=least)[: max(options.worst, 0)]
    more = f" ({len(shown)} of {len(rows)}, the worst first)" if len(shown) < len(rows) else ""
    print(f"cosine with the parsed network's values{more}", file=people)
    print("\n".join(_table(steps, shown)), file=people)
    return 0


def _table(steps: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    cells = [["value", "operator", *steps]]
    for row in rows:
        numbers = [f"{row[step]['cosine']:.6f}" if step in row else "" for step in steps]
        cells.append([str(row["v_id"]), f"{row['operator']} {row['op_id']}", *numbers])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def _page(name: str, steps: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a page with all values in the order of execution; it needs nothing else."""
    from html import escape

    def cells(row: Mapping[str, Any]) -> str:
        found = []
        for step in steps:
            if step not in row:
                found.append("<td></td><td></td>")
                continue
            cosine = row[step]["cosine"]
            shade = min(max((1 - cosine) * 20, 0), 1)
            found.append(
                f'<td style="background:rgba(200,60,40,{shade:.3f})">{cosine:.6f}</td><td>{row[step]["max_error"]:.4g}</td>'
            )
        return "".join(found)

    head = "".join(f"<th>{escape(step)}: cosine</th><th>largest error</th>" for step in steps)
    body = "\n".join(
        f"<tr><td>{row['v_id']}</td><td>{escape(row['operator'])} {row['op_id']}</td>{cells(row)}</tr>" for row in rows
    )
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{escape(name)}</title>\n'
        "<style>body{font:14px sans-serif}td,th{padding:2px 10px;text-align:right}td:nth-child(2){text-align:left}</style>\n"
        f"<h1>{escape(name)}</h1><p>Values of each step against the parsed network's.</p>\n"
        f"<table><tr><th>value</th><th>operator</th>{head}</tr>\n{body}\n</table></html>\n"
    )


def _write_text(path: Path, text: str) -> None:
    from triune._files import write_text

    write_text(path, text)
