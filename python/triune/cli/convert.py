"""``triune convert``: a model file in another format."""

from __future__ import annotations

import argparse
from pathlib import Path


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "convert",
        help="write a model in another format",
        description="Write an ONNX or MegEngine model as the other; the result's suffix says which.",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="an .onnx file, or a bare .mge one")
    parser.add_argument("output", metavar="OUTPUT", type=Path, help="where the result goes: a .mge or .onnx file")
    parser.add_argument(
        "--shape",
        metavar="NAME=N,N,...",
        type=shape,
        action="append",
        default=[],
        help="an input's extents, once per input; open extents that are not given are 1 in a .mge file",
    )
    parser.set_defaults(command=_run)


def shape(text: str) -> tuple[str, list[int]]:
    """Read a name and extents."""
    name, separator, extents = text.rpartition("=")
    try:
        dims = [int(extent) for extent in extents.split(",")]
    except ValueError:
        dims = [-1]
    if not separator or not name or min(dims) < 0:
        raise argparse.ArgumentTypeError(f"expected NAME=N,N,..., got {text!r}")
    return name, dims


def _run(options: argparse.Namespace) -> int:
    from triune import _native

    _native.convert(options.model, options.output, shapes=dict(options.shape))
    return 0
