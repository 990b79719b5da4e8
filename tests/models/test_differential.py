"""Random models of each operator beside ONNX Runtime and ONNX's reference: a sample of what `differential/run.py` runs."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from triune import _native

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

sys.path.insert(0, str(Path(__file__).with_name("differential")))
import drawing  # noqa: E402
import judging  # noqa: E402
import known  # noqa: E402
import recipes  # noqa: E402
import run  # noqa: E402


def test_every_operator_has_a_recipe_or_a_reason() -> None:
    missing, needless = [], []
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in recipes.DOMAINS_NOT_DRAWN:
            continue
        drawn, left = schema.name in recipes.RECIPES, schema.name in recipes.NOT_DRAWN
        missing += [schema.name] if not drawn and not left else []
        needless += [schema.name] if drawn and left else []
    assert missing == []
    assert needless == []


def test_every_operator_of_onnx_runtime_that_is_read_has_a_recipe() -> None:
    read = {f"{domain}.{name}" for domain, name, *_ in _native.onnx_versions() if domain == judging.DOMAIN}
    drawn = {name for name in recipes.RECIPES if name.startswith(judging.DOMAIN)}
    assert read == drawn
    assert drawn == {judging.called(entry.schema) for entry in judging.entries(judging.DOMAIN)}


def test_a_sample_has_no_difference_that_is_not_explained() -> None:
    found: list[run.Found] = []
    run.supervise("", 0, 1, 0, 3, found)
    assert len(found) > 550
    open_ones = [
        (name, *result)
        for name, result in found
        if result.kind in ("differ", "crash") and known.explanation(name, result) is None
    ]
    assert open_ones == []
    judges = Counter(result.judge for _, result in found if result.kind in ("equal", "within"))
    # What judges is ONNX Runtime for the most part: it is there, and its refusals are not all that is seen.
    assert judges["ONNX Runtime"] > 300
    assert judges["reference"] > 50


def test_a_seed_says_the_same_case_again() -> None:
    for entry in judging.sample(judging.entries("Conv"), 0):
        one, other = (judging.drawn(entry, "same") for _ in range(2))
        assert one.model == other.model
        for a, b in zip(one.feeds, other.feeds, strict=True):
            assert a.keys() == b.keys()
            assert all(np.array_equal(a[name], b[name], equal_nan=True) for name in a)


def case(**more: Any) -> drawing.Case:
    """Return a case whose results are float32."""
    types = {"T": drawing.Type("tensor", onnx.TensorProto.FLOAT)}
    return drawing.Case("It", 1, range(1, 2)[0], types, "", b"", [], drawing.Drawn([], **more), "fixed")


@pytest.mark.parametrize(
    ("mine", "theirs", "kind"),
    [
        (np.float32([1, 2]), np.float32([1, 2]), "equal"),
        (np.float32([1, 2]), np.float32([1, 2.000001]), "within"),
        (np.float32([1, 2]), np.float32([1, 2.0001]), "differ"),
        (np.float32([1, np.nan]), np.float32([1, 2]), "differ"),
        (np.float32([1, np.inf]), np.float32([1, -np.inf]), "differ"),
        (np.float32([1, 2]), np.float64([1, 2]), "differ"),
        (np.float32([1, 2]), np.float32([[1, 2]]), "differ"),
        (np.int32([1, 2]), np.int32([1, 3]), "differ"),
        ([np.int32([1])], [np.int32([1]), np.int32([2])], "differ"),
        ([np.int32([1])], [np.int32([1])], "equal"),
        (None, np.int32([1]), "differ"),
    ],
)
def test_the_judge_sees_what_differs(mine: Any, theirs: Any, kind: str) -> None:
    assert judging.apart(mine, theirs, case())[0] == kind


def test_steps_and_random_numbers_are_taken_for_what_they_are() -> None:
    assert judging.apart(np.int8([3]), np.int8([4]), case(steps=1))[0] == "within"
    assert judging.apart(np.int8([3]), np.int8([5]), case(steps=1))[0] == "differ"
    assert judging.apart(np.float32([3]), np.float32([5]), case(loose=True))[0] == "equal"
    assert judging.apart(np.float32([3]), np.float32([[5]]), case(loose=True))[0] == "differ"
