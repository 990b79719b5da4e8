"""What the core logs, as Python's `logging` gets it."""

from __future__ import annotations

import logging
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import triune
from triune import _native
from triune.models import DIGITS_F32, DIGITS_INT8

FEED = {"image": np.zeros((1, 1, 8, 8), np.float32)}


def texts(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    """Return what a logger said, and forget it."""
    found = [record.getMessage() for record in caplog.records if record.name == logger]
    caplog.clear()
    return found


def test_a_session_says_what_it_plans(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "triune")
    session = triune.Session(DIGITS_INT8, threads=2)
    said = texts(caplog, "triune.session")
    assert any(re.fullmatch(r"\d+ operators, 2 threads with [a-z0-9]+", text) for text in said)
    session.prepare({"image": (7, 1, 8, 8)})
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("triune.session", "DEBUG")
    assert re.fullmatch(
        r"planned for image \(7, 1, 8, 8\) on host in [\d.]+ ms: \d+ commands, \d+ bytes of feature maps",
        record.getMessage(),
    )


def test_runs_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    session = triune.Session(DIGITS_INT8)
    session.run(None, FEED)
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    session.run(None, FEED)
    assert caplog.records == []


def test_levels_are_asked_for_each_message(caplog: pytest.LogCaptureFixture) -> None:
    session = triune.Session(DIGITS_INT8)
    for level, count in ((logging.INFO, 0), (logging.DEBUG, 1), (logging.INFO, 0)):
        caplog.set_level(level, "triune.session")
        session.prepare({"image": (20 + level + count, 1, 8, 8)})
        assert len(texts(caplog, "triune.session")) == count


def test_threads_log_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "triune")

    def open_one() -> None:
        triune.Session(DIGITS_F32).prepare({"image": (3, 1, 8, 8)})

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = [text for text in texts(caplog, "triune.session") if text.startswith("planned for image (3,")]
    assert len(said) == 8


def test_what_stays_on_the_host(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG, "triune.compile")
    onnx = pytest.importorskip("onnx")
    model = onnx.load(DIGITS_INT8)
    (output,) = model.graph.output
    model.graph.node.append(onnx.helper.make_node("Softmax", [output.name], ["chances"], "last"))
    shape = [0 if each.dim_param else each.dim_value for each in output.type.tensor_type.shape.dim]
    made = onnx.helper.make_tensor_value_info("chances", 1, ["n", *shape[1:]])
    model.graph.output.pop()
    model.graph.output.append(made)
    onnx.save(model, tmp_path / "model.onnx")
    package = triune.compile(tmp_path / "model.onnx", target="metis", output=tmp_path / "package")
    assert package.report.stayed
    assert texts(caplog, "triune.compile") == [
        f"'{each.node}' ({each.op}) stays on the host: {each.reason}" for each in package.report.stayed
    ]


def test_connections(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "triune.remote")
    server = _native.BoardServer("zg330", "127.0.0.1:0")
    host, port = server.address
    board = _native.Board.connect(host, port, "zg330")
    board.close()
    server.stop()
    said = texts(caplog, "triune.remote")
    assert f"opened zg330 at {host}:{port}, board 0" in said
    assert f"zg330 at {host}:{port}: it was closed" in said
    served = [text for text in said if text.startswith("connection 1: ")]
    assert [text.split(": ")[1].split()[0] for text in served] == ["from", "has", "left"]


def test_what_a_handler_raises_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    class Stop(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise KeyboardInterrupt

    session = triune.Session(DIGITS_INT8)
    caplog.set_level(logging.DEBUG, "triune.session")
    logger, stop = logging.getLogger("triune.session"), Stop()
    logger.addFilter(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            session.prepare({"image": (9, 1, 8, 8)})
    finally:
        logger.removeFilter(stop)
    assert session.run(None, FEED)[0].shape == (1, 10)
