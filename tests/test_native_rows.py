"""What the native module gives as dicts: every key that is documented, with the value that it stands for."""

from __future__ import annotations

from typing import Any

import onnx.parser
import pytest

from triune import _native, errors
from triune.models import DIGITS_INT8


def test_what_a_model_says_of_itself() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1], producer_name: "maker", producer_version: "1.2", '
        'domain: "org.example", model_version: 7, doc_string: "adds", metadata_props: ["key" : "value"]> '
        "twice (float[2] x) => (float[2] y) { y = Add (x, x) }"
    )
    assert _native.Session(model.SerializeToString()).metadata == {
        "format": "ONNX",
        "format_version": 8,
        "producer": "maker",
        "producer_version": "1.2",
        "domain": "org.example",
        "version": 7,
        "description": "adds",
        "graph": "twice",
        "opsets": {"": 17, "com.microsoft": 1},
        "properties": {"key": "value"},
    }


def test_a_boards_settings_are_those_that_were_set() -> None:
    board = _native.Board.local("zg330", threads=1)
    settings: dict[str, Any] = {
        "core_hz": 1_000_000_000,
        "memory_hz": 333_000_000,
        "engines": (2, 2),
        "bits": 8,
        "timer": None,
        "profiler": None,
    }
    assert board.settings() == settings
    changes: list[dict[str, Any]] = [
        {"core_hz": 500_000_000},
        {"memory_hz": 100_000_000},
        {"engines": (1, 2)},
        {"bits": 16},
    ]
    place = board.allocate("ddr", 4096)
    changes += [{"timer": ("ddr", place, 2048)}, {"profiler": ("ddr", place + 2048, 2048)}]
    for change in changes:
        board.configure(**change)
        settings |= change
        assert board.settings() == settings


def test_keys_of_devices() -> None:
    rows = _native.device_schema()
    assert all(set(row) == {"table", "name", "values", "unit", "need", "default", "meaning"} for row in rows)
    assert len({(row["table"], row["name"]) for row in rows}) == len(rows)
    assert {row["need"] for row in rows} == {"always", "modelled", "optional"}
    assert all(row["default"] is None for row in rows if row["need"] != "optional")
    assert any(row["default"] for row in rows)
    assert all(row["meaning"] and row["values"] for row in rows)
    (name,) = (row for row in rows if (row["table"], row["name"]) == ("", "name"))
    assert name["need"] == "always"
    assert {"memory", "placement"} <= {row["table"] for row in rows}


def test_instances_of_a_composition() -> None:
    digits = _native.Estimate.compile(DIGITS_INT8, target="metis")
    # One after another on core 0; every tenth of a second on core 3.
    closed, periodic = ("closed", digits, [0], 1, 0, 0), ("periodic", digits, [3], 0, 10**8, 5)
    found = _native.compose([closed, periodic], horizon=10**9)
    first, second = found.instances()
    keys = {"name", "cores", "images", "runs", "images_per_second", "min", "p50", "p90", "p99", "max", "mean"}
    for row, name, cores in ((first, "closed", [0]), (second, "periodic", [3])):
        assert set(row) == keys
        assert (row["name"], row["cores"], row["images"]) == (name, cores, 1)
        assert 0 < row["min"] <= row["p50"] <= row["p90"] <= row["p99"] <= row["max"]
        assert row["min"] <= row["mean"] <= row["max"]
    assert second["runs"] == 10
    assert first["runs"] == pytest.approx(10**9 / first["mean"], rel=0.01)
    assert first["images_per_second"] == pytest.approx(first["runs"], rel=0.01), "in a second"
    assert [busy > 0 for busy in found.core_busy] == [True, False, False, True]
    assert found.horizon == 10**9
    assert found.forgotten + len(found.runs()) == first["runs"] + second["runs"]
    for instance, queued, *spans in found.runs():
        times = [queued, *(time for span in spans for time in span)]
        assert times == sorted(times), instance
    with pytest.raises(errors.ArgumentError, match="there are none"):
        _native.compose([], horizon=10**9)


@pytest.mark.parametrize("device", [None, "metis", "zg330"])
def test_plans_of_memory(device: str | None) -> None:
    network = _native.Session(DIGITS_INT8, device=device)
    network.prepare([(2, 1, 8, 8)])
    plan = network.memory_plan()
    assert set(plan) == {"bytes", "near", "lower_bound", "buffers", "operators", "inputs", "outputs", "weights"}
    assert (plan["inputs"], plan["outputs"]) == ([("image", 512)], [("logits", 80)])
    assert (plan["near"] > 0) == (device == "zg330")
    assert plan["near"] <= plan["bytes"]
    assert 0 < plan["lower_bound"] <= plan["bytes"]
    assert plan["weights"] > 0
    ends = [last for *_, last in plan["operators"]]
    assert ends == sorted(ends)
    assert max(last for *_, last in plan["buffers"]) <= ends[-1]


def test_parts_of_a_packed_model() -> None:
    packed = _native.pack_model("net", b"model", info=b"{}", model_decryption="AES_default", binary_cache=b"cache")
    parts = _native.unpack_model(packed)
    assert set(parts) == {
        "name",
        "info_decryption",
        "info_parser",
        "model_decryption",
        "cache_parser",
        "is_fast_run_cache",
        "info",
        "algo_policy",
        "binary_cache",
        "model",
    }
    assert (parts["name"], parts["model"], parts["info"], parts["binary_cache"]) == ("net", b"model", b"{}", b"cache")
    assert (parts["info_decryption"], parts["model_decryption"]) == ("NONE", "AES_default")
    assert all(isinstance(parts[name], str) for name in ("info_parser", "cache_parser"))
    assert parts["is_fast_run_cache"] in (True, False)
    assert parts["algo_policy"] == b""
    for damaged in (packed[:20], b"", packed[:4] + bytes(16)):
        with pytest.raises(errors.ArgumentError):
            _native.unpack_model(damaged)
