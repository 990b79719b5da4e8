"""The reader's table of ONNX operators against ONNX's own history of them."""

from __future__ import annotations

import importlib.util
from collections import defaultdict
from pathlib import Path

import pytest

from triune import _native

defs = pytest.importorskip("onnx.defs")

Versions = dict[tuple[str, str], set[int]]


@pytest.fixture(scope="module")
def known() -> Versions:
    """Return the versions of each operator that the reader has in its table, read or refused."""
    versions: Versions = defaultdict(set)
    for domain, operator, since, _ in _native.onnx_versions():
        versions[domain, operator].add(since)
    return versions


@pytest.fixture(scope="module")
def history() -> Versions:
    """Return the versions of each operator that ONNX has had."""
    versions: Versions = defaultdict(set)
    for schema in defs.get_all_schemas_with_history():
        versions[schema.domain, schema.name].add(schema.since_version)
    return versions


def test_every_version_of_a_known_operator_is_in_the_table(known: Versions, history: Versions) -> None:
    newest = max(since for (domain, _), versions in known.items() if domain == "" for since in versions)
    assert newest >= 28
    # What ONNX Runtime has in ONNX's own domain, and had there before ONNX did.
    beside = ("", "SimplifiedLayerNormalization")
    before = {("", "LayerNormalization"): {1}}
    for operator, versions in known.items():
        if operator[0] == "" and operator != beside:
            # Of a newer ONNX than the table's, what came later does not count.
            expected = {since for since in history[operator] if since <= newest}
            assert versions == expected | before.get(operator, set()), operator


def test_what_is_not_read_has_a_reason() -> None:
    refused = [version for version in _native.onnx_versions() if version[3] is not None]
    assert refused
    for *version, reason in refused:
        assert reason
        assert len(reason.split()) > 3, version
    # One version of an operator at least is read.
    read = {(domain, operator) for domain, operator, _, reason in _native.onnx_versions() if reason is None}
    assert {(domain, operator) for domain, operator, *_ in refused} <= read


def test_the_page_lists_what_is_read() -> None:
    root = Path(__file__).resolve().parent.parent.parent
    spec = importlib.util.spec_from_file_location("onnx_operators", root / "tools" / "onnx_operators.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run python tools/onnx_operators.py"
