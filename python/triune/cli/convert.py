"""``triune convert``: a model file in another format."""

from __future__ import annotations

import argparse
from pathlib import Path

from triune._kinds import ICRAFT, MODEL, require
from triune._text import nearest
from triune.cli.arguments import named_shape
from triune.errors import ArgumentError, Error


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
        type=named_shape,
        action="append",
        default=[],
        help="an input's extents, once per input; open extents that are not given are 1 in a .mge file",
    )
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune import _native

    require(options.model, (*MODEL, ICRAFT), "convert")
    shapes = dict(options.shape)
    try:
        _native.convert(options.model, options.output, shapes=shapes)
    except ArgumentError:
        unknown = _unknown(options.model, shapes) if shapes else None
        if unknown is None:
            raise
        raise ArgumentError(f"--shape: unknown input {unknown}") from None
    return 0


def _unknown(model: Path, shapes: dict[str, list[int]]) -> str | None:
    """Return the name that is no input's and which inputs the model has; None if all are."""
    from triune import _native

    try:
        names = [name for name, *_ in _native.Session(model).inputs]
    except Error:
        # It cannot be run here either, which is not the question.
        return None
    unknown = (f"{name!r}{nearest(name, names, 'the model has')}" for name in shapes if name not in names)
    return next(unknown, None)
