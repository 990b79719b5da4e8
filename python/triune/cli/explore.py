"""``triune explore``: what a program costs on devices that differ in some numbers."""

from __future__ import annotations

import argparse
from pathlib import Path

from triune._kinds import ONNX, PACKAGE, require
from triune.cli.arguments import positive
from triune.cli.files import write_files
from triune.profiling._explore import MODES


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "explore",
        help="show what a program would cost on other designs of a device",
        description="Time a program on every combination of some numbers of a device's description, without deploying "
        "it, and show throughput, bottleneck, and which designs no other beats. Keys are paths into the description "
        "such as queues.buffers=1,2,4 or memory.l2.ports=2,4, or short: array=32x32,64x64; clock=400,800; the first "
        "memory's name for its bandwidth (ddr=6.4G,12.8G); another memory's for its size (ocm=512K,1M). '...' goes on as "
        "the values before began; alone it stands for a quarter to four times of what the device has.",
    )
    parser.add_argument(
        "model", metavar="MODEL|DIR", type=Path, help="a quantized ONNX file, or a package that was compiled"
    )
    parser.add_argument(
        "--device",
        "--target",
        metavar="NAME|FILE.toml",
        help="the device to vary, or the file that describes one (default: metis, or the package's)",
    )
    parser.add_argument(
        "--costs",
        metavar="NAME,...",
        default="area,bandwidth",
        help="what designs cost when stars are given: area, macs, bytes, bandwidth, traffic, energy (default: %(default)s)",
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        help="let all cores of each design work: side-by-side, an image on each; pipelined, each has some of the commands; or "
        "split, they share each command. Costs are of all cores then (default: a run on its own cores, costs of one)",
    )
    parser.add_argument("--batch", metavar="N", type=positive, help="images per run, each on its own core (default: 1)")
    parser.add_argument(
        "--sweep",
        metavar="KEY=VALUE,...",
        action="append",
        required=True,
        help="what to vary; several keys in one (array=16x16,32x32,ddr=6.4G,12.8G), or one option each",
    )
    parser.add_argument("--csv", metavar="FILE", type=Path, help="write a line per design")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all designs")
    parser.add_argument("-o", "--output", metavar="FILE.html", type=Path, help="draw a page")
    parser.set_defaults(command=_run)


def sweep(texts: list[str]) -> dict[str, list[str]]:
    """Return the values of each key. Raises ValueError for what is no ``KEY=VALUE,...``."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key = None
        for part in text.split(","):
            name, equals, value = part.partition("=")
            if equals:
                key = name.strip()
                if key in found or not key:
                    raise ValueError(f"--sweep: '{key}' is given twice" if key else f"--sweep: no key in '{part}'")
                found[key] = [value]
            elif key is None:
                raise ValueError(f"--sweep: expected KEY=VALUE,..., got '{text}'")
            else:
                found[key].append(part)
    return found


def _run(options: argparse.Namespace) -> int:
    from triune.profiling import explore

    require(options.model, (ONNX, PACKAGE), "explore")
    costs = [name.strip() for name in options.costs.split(",")]
    found = explore(
        options.model,
        sweep(options.sweep),
        device=options.device,
        batch=options.batch,
        costs=costs,
        mode=options.mode,
    )
    people = write_files(
        (options.csv, found.write_csv),
        (options.json, found.write_json),
        (options.output, found.write_report),
    )
    print(found.table(), file=people)
    return 0
