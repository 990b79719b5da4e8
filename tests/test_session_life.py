"""`triune.Session` between its runs: where models come from, plans, clones, other threads and processes, profiles, the end."""

from __future__ import annotations

import asyncio
import copy
import io
import logging
import multiprocessing
import pickle
import threading
import warnings
from concurrent.futures import CancelledError, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx.parser
import pytest

import triune
from triune import errors
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

STAGED = '<ir_version: 8, opset_import: ["" : 17]> g (float[n] x) => (int64[1, m] y) { y = NonZero (x) }'


@pytest.fixture(scope="module")
def images() -> npt.NDArray[np.float32]:
    """Return some scans, NCHW."""
    return np.ascontiguousarray(digits_held_out()[0][:7].transpose(0, 3, 1, 2))


@pytest.fixture(scope="module")
def logits(images: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    return triune.Session(DIGITS_INT8).run({"image": images})[0]


def test_sources(images: npt.NDArray[np.float32], logits: npt.NDArray[Any]) -> None:
    content = DIGITS_INT8.read_bytes()
    with DIGITS_INT8.open("rb") as file:
        for source in (
            content,
            bytearray(content),
            memoryview(content),
            io.BytesIO(content),
            file,
            onnx.load(DIGITS_INT8),
        ):
            assert np.array_equal(triune.Session(source).run({"image": images})[0], logits)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "model: expected a path, bytes, an open file or a ModelProto, got int"),
        (io.StringIO("x"), "model: expected a file that is open in binary mode, got str of it"),
    ],
)
def test_no_sources(source: Any, message: str) -> None:
    with pytest.raises(errors.ArgumentError, match=message):
        triune.Session(source)


def test_external_data_of_a_model_in_memory(
    tmp_path: Path, images: npt.NDArray[np.float32], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = triune.Session(DIGITS_F32).run({"image": images})[0]
    model = onnx.load(DIGITS_F32)
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights", size_threshold=0)
    content = (tmp_path / "m.onnx").read_bytes()
    with pytest.raises(errors.Error, match="external data"):
        triune.Session(content)
    monkeypatch.chdir(tmp_path)
    session = triune.Session(content, external_data=".")
    monkeypatch.undo()
    for each in (session, pickle.loads(pickle.dumps(session))):
        assert np.array_equal(each.run({"image": images})[0], expected)
    with pytest.raises(errors.ArgumentError, match="external_data: expected none beside a path"):
        triune.Session(tmp_path / "m.onnx", external_data=tmp_path)


def test_metadata() -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]> g (float[2] x) => (float[2] y) { y = Add (x, x) }'
    )
    model.producer_name, model.producer_version, model.domain, model.model_version = "maker", "1.2", "org.example", 42
    model.doc_string = "adds – twice"
    onnx.helper.set_model_props(model, {"labels": "a,b", "empty": ""})
    found = triune.Session(model).metadata
    assert (found.format, found.format_version, found.producer, found.producer_version) == ("ONNX", 8, "maker", "1.2")
    assert (found.domain, found.version, found.description, found.graph) == ("org.example", 42, "adds – twice", "g")
    assert (found.opsets, found.opset) == ({"": 17, "ai.onnx.ml": 3}, 17)
    assert found.properties == {"labels": "a,b", "empty": ""}
    # Bytes that are no text do not keep a model from running.
    model.producer_name = ""
    broken = model.SerializeToString() + b"\x12\x02\xff\xfe"
    assert triune.Session(broken).metadata.producer == "��"


def test_closing(images: npt.NDArray[np.float32]) -> None:
    with triune.Session(DIGITS_INT8) as session:
        clone = session.clone()
        assert not session.closed
    assert session.closed
    session.close()
    assert "(closed)" in repr(session)
    assert session.inputs[0].name == "image"
    for use in (
        lambda: session.run({"image": images}),
        lambda: session.run_async({"image": images}),
        lambda: session.prepare({"image": (1, 1, 8, 8)}),
        lambda: session.profile({"image": images}),
        lambda: pickle.dumps(session),
        session.clone,
    ):
        with pytest.raises(errors.ReleasedError, match="the session is closed; open another one"):
            use()
    assert clone.run({"image": images})[0].shape == (7, 10)


def test_copies(images: npt.NDArray[np.float32], logits: npt.NDArray[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DIGITS_INT8.parent)
    sessions = [triune.Session(DIGITS_INT8.name, threads=2), triune.Session(DIGITS_INT8.read_bytes(), threads=2)]
    monkeypatch.chdir("/")
    for session in sessions:
        for other in (
            session.clone(),
            copy.copy(session),
            copy.deepcopy([session])[0],
            pickle.loads(pickle.dumps(session)),
        ):
            assert other is not session
            assert other.threads == 2
            assert repr(other) == repr(session) or isinstance(session._source, str)
            assert np.array_equal(other.run({"image": images})[0], logits)
        assert session.clone(threads=1).threads == 1
        with pytest.raises(errors.ArgumentError, match="threads: expected"):
            session.clone(threads=-1)


def test_clones_run_at_the_same_time(images: npt.NDArray[np.float32], logits: npt.NDArray[Any]) -> None:
    session = triune.Session(DIGITS_INT8)
    found: list[bool] = []

    def work() -> None:
        own = session.clone()
        found.extend(np.array_equal(own.run({"image": images})[0], logits) for _ in range(20))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 80


def test_prepare() -> None:
    session = triune.Session(DIGITS_INT8)
    assert session.prepare({"image": (3, 1, 8, 8)}) == {"logits": (3, 10)}
    assert session.prepare({"image": np.array([0, 1, 8, 8])}) == {"logits": (0, 10)}
    assert triune.Session(onnx.parser.parse_model(STAGED)).prepare({"x": [4]}) == {"y": None}
    for shapes, message in (
        ({}, r"input 'image': expected an extent for each axis, got \('N', 1, 8, 8\)"),
        ({"image": (1, 1, 8, 8), "y": (1,)}, "unknown input 'y'; the model has image"),
        ({"image": (1, 1, 8, -8)}, "input 'image': expected extents of 0 or more"),
        ({"image": (1, 1, 8, 9)}, "image"),
        ({"image": (1,) * 100}, "input 'image': expected 8 dimensions at most, got 100"),
    ):
        with pytest.raises(errors.ArgumentError, match=message):
            session.prepare(shapes)


def test_futures(images: npt.NDArray[np.float32], logits: npt.NDArray[Any]) -> None:
    session = triune.Session(DIGITS_INT8)
    runs = [session.run_async({"image": images}) for _ in range(5)]
    runs.append(session.run_async(["logits"], {"image": images}))
    for run in runs:
        assert np.array_equal(run.result()[0], logits)
    with pytest.raises(errors.ArgumentError, match="expected an array, got none"):
        session.run_async({}).result()

    async def both() -> tuple[list[npt.NDArray[Any]], list[npt.NDArray[Any]]]:
        first, second = session.run_async({"image": images}), session.run_async({"image": images[:2]})
        return await first, await second

    first, second = asyncio.run(both())
    assert np.array_equal(first[0], logits)
    assert np.array_equal(second[0], logits[:2])


def test_futures_that_have_not_begun_end_with_the_session(images: npt.NDArray[np.float32]) -> None:
    session = triune.Session(DIGITS_INT8)
    began, go_on = threading.Event(), threading.Event()

    class Slow(dict[str, Any]):
        """Feeds that are looked at late."""

        def items(self) -> Any:
            began.set()
            go_on.wait()
            return super().items()

    first, waiting, cancelled = (session.run_async(Slow({"image": images})) for _ in range(3))
    assert began.wait(60)
    assert cancelled.cancel()
    session.close()
    go_on.set()
    assert len(first.result(60)) == 1
    for run in (waiting, cancelled):
        with pytest.raises(CancelledError):
            run.result(60)


def test_profile(images: npt.NDArray[np.float32]) -> None:
    session = triune.Session(DIGITS_INT8)
    profile = session.profile({"image": images}, runs=3)
    assert profile.runs == 3
    assert sum(each.kind == "Conv" for each in profile.operators) >= 1
    assert profile.seconds == pytest.approx(sum(each.seconds for each in profile.operators))
    assert sum(profile.kinds().values()) == pytest.approx(profile.seconds)
    text = str(profile)
    assert all(each.name in text for each in profile.operators)
    assert "mean of 3 runs" in text
    assert "<table>" in profile._repr_html_()
    with pytest.raises(errors.ArgumentError, match="runs: expected at least 1, got 0"):
        session.profile({"image": images}, runs=0)


def test_pages_and_lines_are_short_and_safe() -> None:
    inputs = ", ".join(f"float[2] x{index}" for index in range(60))
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g ({inputs}) => (float[2] y) {{ y = Sum (x0, x1) }}'
    )
    model.graph.input[3].name = "<script>"
    session = triune.Session(model)
    assert len(repr(session)) < 300
    assert "… 56 more" in repr(session)
    page = session._repr_html_()
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert page.count("<tr>") == 1 + 20 + 1


def test_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "triune"):
        triune.Session(DIGITS_INT8).prepare({"image": (5, 1, 8, 8)})
    assert [record.name for record in caplog.records] == ["triune.session"] * 3
    assert "39 operators, " in caplog.messages[0]
    assert "digits_int8.onnx" in caplog.messages[1]
    assert "planned for image (5, 1, 8, 8) on host" in caplog.messages[2]


def compute(session: triune.Session, images: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    """Run in another process."""
    result: npt.NDArray[Any] = session.run_async({"image": images}).result()[0]
    return result


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_other_processes(method: str, images: npt.NDArray[np.float32], logits: npt.NDArray[Any]) -> None:
    session = triune.Session(DIGITS_INT8)
    compute(session, images)
    with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
        for _ in range(3):
            found = pool.submit(triune.Session.run, session, {"image": images}).result()
            assert np.array_equal(found[0], logits)


def test_a_child_has_a_thread_of_its_own(images: npt.NDArray[np.float32], logits: npt.NDArray[Any]) -> None:
    """A session that has run asynchronously goes on doing so in a fork."""
    session = triune.Session(DIGITS_INT8)
    compute(session, images)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(compute(session, images)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child.start()
    assert receiver.poll(60)
    assert np.array_equal(receiver.recv(), logits)
    child.join(60)
    assert child.exitcode == 0


def test_joblib(images: npt.NDArray[np.float32], logits: npt.NDArray[Any]) -> None:
    joblib = pytest.importorskip("joblib")
    session = triune.Session(DIGITS_INT8)
    for backend in ("loky", "threading"):
        runs = joblib.Parallel(n_jobs=2, backend=backend)(
            joblib.delayed(session.run)({"image": images}) for _ in range(4)
        )
        assert all(np.array_equal(run[0], logits) for run in runs)
