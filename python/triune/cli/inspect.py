"""``triune inspect``: what a model or package takes, gives, holds and says of itself."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triune._kinds import MODEL, PACKAGE, PACKED, kind_of, require
from triune.cli.arguments import named_shape, nonnegative

if TYPE_CHECKING:
    from triune import Session, SessionPlan, ValueInfo


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "inspect",
        help="show what a model or package takes, gives and holds",
        description="Show inputs, outputs, operators, multiplications, weights and metadata of a model, of a package, or of "
        "a packed model of MegEngine Lite.",
    )
    parser.add_argument(
        "model", metavar="MODEL|DIR", type=Path, help="an .onnx, .mge or .lite file, or a package's directory"
    )
    parser.add_argument(
        "--shape",
        metavar="NAME=N,N,...",
        type=named_shape,
        action="append",
        default=[],
        help="an input's extents, once per input, for what depends on them; open ones that are not given are 1",
    )
    parser.add_argument(
        "--plan",
        action="store_true",
        help="show what a run does on this machine's CPU, too: commands in order, what is fused into each, kernels, where and "
        "how long results lie",
    )
    parser.add_argument(
        "--threads", metavar="N", type=nonnegative, help="with --plan: of a run; 0 for every CPU (default: 1)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    path: Path = options.model
    require(path, (*MODEL, PACKAGE, PACKED), "inspect")
    kind = kind_of(path)
    if options.threads is not None and not options.plan:
        raise ValueError("--threads: belongs to --plan; nothing else depends on it")
    if options.plan and kind is PACKAGE:
        raise ValueError(
            f"--plan: is what a run does on this machine's CPU, and {path} is a package for a card: triune profile {path} "
            "shows its commands, and --json and --memory-snapshot there which feature maps lie where in its memories, and when"
        )
    if options.plan and kind is PACKED:
        raise ValueError(
            f"--plan: takes an .onnx or .mge file; {path} is a packed model, which `inspect` only looks into"
        )
    plan = None
    if kind is PACKAGE:
        found = _package(path)
    elif kind is PACKED:
        found = _packed(path)
    else:
        from triune import Session

        session = Session(path, threads=1 if options.threads is None else options.threads)
        found = _model(session, path, dict(options.shape))
        plan = _plan(session) if options.plan else None
    if options.json:
        told = found if plan is None else {**found, "plan": plan.to_dict()}
        print(json.dumps(told, indent=1, ensure_ascii=False))
    else:
        for line in _lines(found):
            print(line)
        if plan is not None:
            print(f"\n{plan}")
    return 0


def _plan(session: Session) -> SessionPlan:
    odd = [info.name for info in session.inputs if info.kind != "tensor"]
    if odd:
        raise ValueError(
            f"--plan: input {odd[0]!r} is no tensor, so that nothing is planned before a run; triune.Session's plan() says "
            "behind one what it did"
        )
    return session.plan()


def shapes_of(
    inputs: Sequence[ValueInfo], given: Mapping[str, Sequence[int]], batch: int = 1, *, exact: bool = False
) -> dict[str, tuple[int, ...]]:
    """Return a shape for each input: that which is given, else the model's, with `batch` for an open one in front, 1 elsewhere.

    Raises ValueError for a name that the model does not have, and where the model fixes another batch and `exact` is asked for.
    """
    names = [info.name for info in inputs]
    for name in given:
        if name not in names:
            from triune._text import nearest

            raise ValueError(f"--shape: unknown input {name!r}{nearest(name, names, 'the model has')}")
    shapes = {}
    for info in inputs:
        if info.name in given:
            shapes[info.name] = tuple(given[info.name])
            continue
        if info.shape == ("...",):
            raise ValueError(
                f"--shape: input {info.name!r} may have any number of axes; say which: --shape {info.name}=N,N,..."
            )
        first = info.shape[0] if info.shape else None
        if exact and isinstance(first, int) and first != batch:
            raise ValueError(f"--batch: input {info.name!r} fixes {first}, got {batch}")
        extents = (
            each if isinstance(each, int) else (batch if axis == 0 else 1) for axis, each in enumerate(info.shape)
        )
        shapes[info.name] = tuple(extents)
    return shapes


def _model(session: Session, path: Path, given: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    said = session.metadata
    native = session._native
    # Of a model that takes maps, or of which the file does not say how many axes an input has, nothing can be planned.
    tensors = all(info.kind == "tensor" and (info.shape != ("...",) or info.name in given) for info in session.inputs)
    shapes = shapes_of([info for info in session.inputs if info.kind == "tensor"], given) if tensors or given else {}
    if tensors:
        session.prepare(shapes)
    # What runs on the host is no part of a program.
    nodes, values = native.own_outline() if native.staged or not tensors else native.outline()
    held, held_bytes = native.held
    counted = sum(operations for *_, operations in nodes if operations)
    kinds = Counter(kind for _, kind, *_ in nodes)
    weights = {name: value for name, value in values.items() if value[2]}
    sizes = [_product(shape) for _, shape, _ in weights.values()]
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "format": said.format,
        "producer": " ".join(filter(None, (said.producer, said.producer_version))),
        "opsets": said.opsets,
        "graph": said.graph,
        "version": said.version,
        "domain": said.domain,
        "description": said.description,
        "properties": said.properties,
        "inputs": [_described(info) for info in session.inputs],
        "outputs": [_described(info) for info in session.outputs],
        "shapes": shapes,
        "operators": dict(kinds.most_common()),
        "macs": counted // 2,
        "parameters": sum(sizes) + held,
        "weights_bytes": held_bytes
        + sum(size * _itemsize(dtype) for size, (dtype, *_) in zip(sizes, weights.values(), strict=True)),
        "run_bytes": native.scratch_bytes,
    }


def _described(info: ValueInfo) -> dict[str, Any]:
    return {**info._asdict(), "kind": info.kind}


def _package(path: Path) -> dict[str, Any]:
    from triune import _native

    folder = path if path.is_dir() else path.parent
    package = _native.Package(folder / "model.json")
    timeline = package.timeline()
    constants = next(each for each in timeline.segments() if each["kind"] == "constants")

    def described(io: _native.TensorIo) -> dict[str, Any]:
        return {
            "name": io.name,
            "dtype": io.dtype,
            "shape": io.shape,
            "padding": io.padding,
            "scale": io.scale,
            "zero_point": io.zero_point,
            "model_shape": io.model_shape,
        }

    return {
        "file": str(folder),
        "bytes": sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()),
        "format": "package",
        "target": package.target,
        "batch": package.batch,
        "inputs": [described(io) for io in package.inputs],
        "outputs": [described(io) for io in package.outputs],
        "host_before": package.preprocess,
        "host_behind": package.postprocess,
        "operators": dict(Counter(each["kind"] for each in timeline.operators()).most_common()),
        "macs": timeline.macs,
        "weights_bytes": constants["bytes"],
        "run_bytes": timeline.scratch_bytes,
        "cycles": timeline.cycles,
        "microseconds": round(timeline.micros, 3),
    }


def _packed(path: Path) -> dict[str, Any]:
    from triune import _native
    from triune._files import MODEL_LIMIT, read

    parts = _native.unpack_model(read(path, MODEL_LIMIT))
    plain = parts["info_decryption"] in ("", "NONE")
    return {
        "file": str(path),
        "bytes": path.stat().st_size,
        "format": "packed model of MegEngine Lite",
        "name": parts["name"],
        "info_cipher": parts["info_decryption"] or "NONE",
        "model_cipher": parts["model_decryption"] or "NONE",
        "info": bytes(parts["info"]).decode("utf-8", "replace") if plain else "(encrypted)",
        "model_bytes": len(parts["model"]),
        "cache_bytes": len(parts["binary_cache"]),
    }


def _product(shape: Sequence[int]) -> int:
    product = 1
    for extent in shape:
        product *= extent
    return product


def _itemsize(dtype: str) -> int:
    import numpy as np

    return np.dtype(dtype).itemsize


_UNITS = {"bytes", "weights_bytes", "run_bytes", "model_bytes", "cache_bytes"}


def _lines(found: dict[str, Any]) -> list[str]:
    from triune.profiling._table import compact, size

    lines = []
    for key, value in found.items():
        label = f"{key.replace('_', ' '):<14}"
        if value in ("", None, {}, 0) and key not in ("macs", "parameters"):
            continue
        if key in ("inputs", "outputs"):
            rows = [_io(each) for each in value]
        elif key in ("opsets", "properties", "shapes"):
            rows = [f"{name or 'ai.onnx'} {_shape(each) if key == 'shapes' else each}" for name, each in value.items()]
        elif key == "operators":
            rows = [f"{sum(value.values())}: " + ", ".join(f"{count} {name}" for name, count in value.items())]
        elif key in _UNITS:
            label, rows = f"{key.removesuffix('_bytes').replace('_', ' '):<14}", [size(value)]
        elif key in ("macs", "parameters", "cycles"):
            rows = [f"{value:,} ({compact(value)})" if value >= 100_000 else f"{value:,}"]
        else:
            rows = [" ".join(str(value).split())]
        lines += [f"{label if not at else '':<14} {row}" for at, row in enumerate(rows)]
    return lines


def _shape(shape: Sequence[int | str]) -> str:
    return f"({', '.join(map(str, shape))})"


def _io(info: Mapping[str, Any]) -> str:
    kind, dtype = info.get("kind", "tensor"), info["dtype"]
    shape = "" if "sequence" in kind or "map" in kind else f" {_shape(info['shape'])}"
    if kind == "strings":
        dtype = kind
    elif kind != "tensor":
        dtype = f"{kind} {'to' if 'map' in kind else 'of'} {'strings' if dtype == 'object' else dtype}"
    text = f"{info['name']} {dtype}{shape}"
    if "scale" in info:
        text += f" = (q − {info['zero_point']}) × {info['scale']:g}, {_shape(info['model_shape'])} without padding"
    return text
