"""A compiled model's manifest, which has to say of the model's border what its model.json says.

Programs take shapes, padding and scales from either; two that differ would be wrong numbers without a word.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from triune import _native
from triune._files import TEXT_LIMIT, read

from ._errors import InvalidArgument, vendor

__all__ = ["FILE", "check"]

LOG = logging.getLogger("axelera.runtime")

FILE = "manifest.json"

VERSIONS = ("1.0", "1.1")
"""Those that are known: with 1.1 came names of tensors and a description of the model."""


def check(model: Path, package: _native.Package) -> bool:
    """Say whether there is a manifest beside a ``model.json``, after comparing the two.

    Raises `InvalidArgument`, with file, field and tensor, if it cannot be read, lacks a field, or says something else than the
    package. A version that is not known is a warning in the log.
    """
    path = model.with_name(FILE)
    if not path.exists():
        return False
    try:
        found = json.loads(read(path, TEXT_LIMIT))
    except _native.Error as error:
        raise vendor(error) from None
    except (ValueError, RecursionError) as error:
        raise _wrong(path, f"not JSON ({error})") from None
    if not isinstance(found, dict):
        raise _wrong(path, f"expected an object, got {type(found).__name__}")
    version = found.get("manifest_version")
    if version not in VERSIONS:
        LOG.warning("%s: manifest_version: known are %s, got %r", path, " and ".join(VERSIONS), version)
    for field, wanted in _expected(package).items():
        if field not in found:
            # The first version has no names.
            if field in ("input_names", "output_names") and version != "1.1":
                continue
            raise _wrong(path, f"{field} is missing")
        _compare(path, field, found[field], wanted)
    metadata = found.get("model_metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise _wrong(path, f"model_metadata: expected an object, got {type(metadata).__name__}")
    return True


def _expected(package: _native.Package) -> dict[str, Any]:
    """Return what a manifest says of a package: a value, or a list with one for each tensor."""
    found: dict[str, Any] = {"input_tensor_layout": "NHWC"}
    for side, params, tensors in (
        ("input", "quantize_params", package.inputs),
        ("output", "dequantize_params", package.outputs),
    ):
        found[f"{side}_names"] = [io.name for io in tensors]
        found[f"{side}_shapes"] = [list(io.shape) for io in tensors]
        found[f"{side}_dtypes"] = [io.dtype for io in tensors]
        found[f"n_padded_ch_{side}s"] = [[count for pair in io.padding for count in pair] for io in tensors]
        found[params] = [[io.scale, io.zero_point] for io in tensors]
    return found | {"preprocess_graph": package.preprocess, "postprocess_graph": package.postprocess}


def _compare(path: Path, field: str, found: Any, wanted: Any) -> None:
    if isinstance(wanted, list) and (not isinstance(found, list) or len(found) != len(wanted)):
        count = f"{len(found)} of them" if isinstance(found, list) else type(found).__name__
        raise _wrong(path, f"{field}: expected one for each of {len(wanted)} tensors, got {count}")
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, list) else [(found, wanted)]
    for index, (one, other) in enumerate(pairs):
        if not _same(one, other):
            where = f"{field}[{index}]" if isinstance(wanted, list) else field
            raise _wrong(path, f"{where}: model.json has {other}, here is {one}")


def _same(one: Any, other: Any) -> bool:
    if isinstance(other, float):
        # Scales are float32, however many digits are written of them.
        number = isinstance(one, int | float) and not isinstance(one, bool)
        return number and bool(np.float32(one) == np.float32(other))
    if isinstance(other, list):
        return isinstance(one, list) and len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def _wrong(path: Path, why: str) -> InvalidArgument:
    return InvalidArgument(f"{path}: {why}; compile the model again")
