"""``triune device``: descriptions of devices, one's own and those that come with Triune."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from triune.errors import ArgumentError, FileError


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "device",
        help="write, check and show descriptions of devices",
        description="Write a device file to begin with, check one, or show what is in one. Device files are targets of "
        "compile, explore and others: --target ./mine.toml. docs/own-device.md leads from nothing to a device of one's own.",
    )
    verbs = parser.add_subparsers(title="commands", required=True, metavar="VERB")
    new = verbs.add_parser(
        "new",
        help="write a device file to begin with",
        description="Write NAME.toml: a small systolic array with a scratchpad, or a copy of a device that comes with Triune.",
    )
    new.add_argument("name", metavar="NAME", help="what the device is to be called")
    new.add_argument(
        "--like", metavar="DEVICE", help="a device that comes with Triune, such as metis or scalesim-ws-16x16"
    )
    new.add_argument("-o", "--output", metavar="FILE.toml", type=Path, help="where it goes (default: NAME.toml)")
    new.set_defaults(command=_new)
    check = verbs.add_parser(
        "check",
        help="say what is wrong with a device file",
        description="Read a device file and name everything that is wrong with it, with line, key and cure.",
    )
    check.add_argument("file", metavar="FILE", type=Path, help="the device file")
    check.add_argument(
        "--conformance",
        action="store_true",
        help="run small programs on the device, too: they compile, their plans are sound, they compute the host's bits, and more "
        "of a resource never takes longer",
    )
    check.add_argument("--json", action="store_true", help="print what was found as JSON")
    check.set_defaults(command=_check)
    show = verbs.add_parser(
        "show",
        help="show what is in a description",
        description="Show every key of a description with its value, its unit and what it means, and what follows from them.",
    )
    show.add_argument(
        "device",
        metavar="FILE|NAME|DIR",
        help="a device file, a device that comes with Triune, or a package's directory",
    )
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--toml", action="store_true", help="print the description itself")
    show.set_defaults(command=_show)


def _new(options: argparse.Namespace) -> int:
    from triune import _native
    from triune._files import write_text

    path: Path = options.output or Path(f"{options.name}.toml")
    text = _native.device_begin(options.name, options.like)
    if os.path.lexists(path):
        raise FileExistsError(f"{path}: there is such a file; remove it, or say -o OTHER.toml")
    write_text(path, text)
    print(path)
    return 0


def _check(options: argparse.Namespace) -> int:
    from triune import _native

    file: Path = options.file
    problems = _native.device_problems(file)
    checks = _native.device_conformance(_as_file(file)) if options.conformance and not problems else []
    failed = [(name, why) for name, why in checks if why is not None]
    if options.json:
        content: dict[str, Any] = {
            "file": str(file),
            "ok": not problems and not failed,
            "problems": [{"line": line, "key": key, "problem": problem} for line, key, problem in problems],
        }
        if options.conformance:
            content["conformance"] = [{"program": name, "failed": why} for name, why in checks]
        print(json.dumps(content, indent=1, ensure_ascii=False))
        return 0 if content["ok"] else 1
    for line, key, problem in problems:
        print(f"{file}:{'' if line is None else f'{line}:'} {key}: {problem}", file=sys.stderr)
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        print(f"triune: {file}: {count}", file=sys.stderr)
        return 1
    name, toml = _native.device_of(_as_file(file))
    print(f"{file}: {name} is in order: {_summary(tomllib.loads(toml))}")
    for program, why in checks:
        print(f"{'failed' if why else 'ok    '} {program}{f': {why}' if why else ''}")
    if failed:
        print(f"triune: {file}: {len(failed)} of {len(checks)} programs failed", file=sys.stderr)
        return 1
    if checks:
        print(f"{len(checks)} programs: compiled, planned, carried, run with the host's bits, timed")
    return 0


def _show(options: argparse.Namespace) -> int:
    toml, source = _found(options.device)
    device = tomllib.loads(toml)
    if options.toml:
        print(toml, end="")
    elif options.json:
        content = {
            "schema": "triune-device",
            "schema_version": 1,
            "source": source,
            "device": device,
            "derived": _derived(device),
            "keys": _rows(device),
        }
        print(json.dumps(content, indent=1, ensure_ascii=False))
    else:
        print("\n".join(_lines(device)))
    return 0


def _as_file(path: Path) -> str:
    """Return a path that cannot be taken for a name."""
    text = os.fspath(path)
    return text if os.path.dirname(text) or path.suffix == ".toml" else os.path.join(os.curdir, text)


def _found(device: str) -> tuple[str, str]:
    """Return a description with all its values, and where it is from."""
    from triune import _native

    path = Path(device)
    folder = path if path.is_dir() else path.parent if path.name == "model.json" else None
    if folder is not None:
        if not (folder / "model.json").exists():
            raise FileError(
                f"{device}: expected a device file, a device's name or a package, got a folder without model.json"
            )
        package = _native.Package(folder / "model.json")
        if package.device is None:
            return _native.device_of(package.target)[1], f"comes with Triune; {device} is for it"
        return package.device, f"carried by {device}"
    try:
        toml = _native.device_of(device)[1]
    except ArgumentError:
        if _native.device_is_file(device):
            raise ArgumentError(
                "; ".join(
                    f"{device}:{'' if line is None else f'{line}:'} {key}: {problem}"
                    for line, key, problem in _native.device_problems(device)
                )
            ) from None
        raise
    return toml, device if _native.device_is_file(device) else "comes with Triune"


def _rows(device: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row per key: its path, its value if it has one, and what the schema says of it."""
    from triune import _native

    rows = []
    keys = _native.device_schema()
    for table in dict.fromkeys(key["table"] for key in keys):
        held = device if not table else device.get(table)
        for index, inner in enumerate(held) if isinstance(held, list) else [(None, held)]:
            if inner is None:
                continue
            where = table if index is None else f"{table}[{index}]"
            rows += [
                {
                    "key": f"{where}.{key['name']}" if where else key["name"],
                    "value": inner.get(key["name"]),
                    "unit": key["unit"],
                    "values": key["values"],
                    "default": key["default"],
                    "meaning": key["meaning"],
                }
                for key in keys
                if key["table"] == table
            ]
    return rows


def _derived(device: dict[str, Any]) -> dict[str, Any]:
    """Return what follows from a description: peaks of a core and of all, sizes, bandwidths."""
    array, vector = device.get("array"), device.get("vector", {})
    peak: float = vector.get("taps_per_cycle", 0)
    if array:
        leaving = -(-array["columns"] // array["results_per_cycle"]) if "results_per_cycle" in array else 0
        units = array["units"][0] * array["units"][1]
        peak = units * array["rows"] * array["columns"] / max(array["cycles_per_vector"], leaving)
    hertz = device.get("clock_mhz", 0) * 1e6
    return {
        "peak_macs_per_cycle": peak,
        "peak_tops": 2 * peak * hertz * device["cores"] / 1e12,
        "memories": [
            {
                "name": memory["name"],
                "usable_bytes": memory["bytes"] - memory["reserved"],
                "bytes_per_second": memory.get("bytes_per_second")
                or (
                    memory["bytes_per_cycle"][0] / memory["bytes_per_cycle"][1] * hertz
                    if "bytes_per_cycle" in memory
                    else None
                ),
            }
            for memory in device["memory"]
        ],
    }


def _summary(device: dict[str, Any]) -> str:
    from triune.profiling._table import size

    derived, cores = _derived(device), device["cores"]
    parts = [f"{cores} core{'s' if cores > 1 else ''}"]
    if array := device.get("array"):
        parts.append(f"{array['rows']}x{array['columns']} {array['dataflow']} array")
    if "clock_mhz" in device:
        parts.append(f"{device['clock_mhz']} MHz, {derived['peak_tops']:.3g} TOPS")
    parts += [f"{each['name']} {size(each['usable_bytes'])}" for each in derived["memories"]]
    return ", ".join(parts)


def _lines(device: dict[str, Any]) -> list[str]:
    # The description stands above; links are for pages.
    rows = [
        (row["key"], _text(row["value"]), row["unit"], re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", row["meaning"]))
        for row in _rows(device)
        if row["key"] != "description"
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    table = [
        f"{key:<{widths[0]}} {value:>{widths[1]}} {unit:<{widths[2]}} {meaning}".rstrip()
        for key, value, unit, meaning in rows
    ]
    return [f"{device['name']}: {device['description']}", _summary(device), "", *table]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}" if value > 99_999 else str(value)
    return str(value)
