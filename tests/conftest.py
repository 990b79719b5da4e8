"""What every test folder shares: virtual cards of their own, and where the large test data lies."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent

# What loads modules beside tests is one itself.
_SPEC = importlib.util.spec_from_file_location("beside", Path(__file__).with_name("beside.py"))
assert _SPEC is not None
assert _SPEC.loader is not None
beside = sys.modules["beside"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(beside)
# Commands made by hand.
beside.load(__file__, "command_words")

# What a shell starts in the background ignores Ctrl-C, and so do its children; the tests' own shall not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests' reservations apart from those of other programs on this machine, and their files out of the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
        patch.delenv("TRIUNE_CARDS", raising=False)
        # Where programs write what has no other place, such as logs.
        patch.chdir(tmp_path_factory.mktemp("here"))
        yield


@pytest.fixture(autouse=True, scope="session")
def exact_products() -> Iterator[None]:
    """Let ONNX Runtime multiply bytes exactly on machines without VNNI, where sums of two products end at 16 bits otherwise."""
    if importlib.util.find_spec("onnxruntime") is None:
        yield
        return
    import onnxruntime

    plain = onnxruntime.InferenceSession

    def exact(model: Any, sess_options: Any = None, *more: Any, **named: Any) -> Any:
        options = sess_options or onnxruntime.SessionOptions()
        try:
            options.add_session_config_entry("session.x64quantprecision", "1")
            return plain(model, options, *more, **named)
        except Exception:
            # It makes nodes of some models that ONNX Runtime has no kernel for; signed bytes on both sides are exact anyway.
            options.add_session_config_entry("session.x64quantprecision", "0")
            return plain(model, options, *more, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(onnxruntime, "InferenceSession", exact)
        yield


@pytest.fixture(autouse=True)
def levels_of_logs() -> Iterator[None]:
    """Loggers say no more than they did, whatever a test asked them for."""
    loggers = [logging.getLogger(name) for name in logging.root.manager.loggerDict if name.split(".")[0] == "triune"]
    before = [(logger, logger.level) for logger in [logging.getLogger("triune"), *loggers]]
    yield
    for logger, level in before:
        if logger.level != level:
            logger.setLevel(level)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the folder of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Return the folder of real models and images that is too large for the repository, or skip.

    It is the folder that TRIUNE_TEST_DATA names, else the folder `shared` beside the checkout.
    """
    named = os.environ.get("TRIUNE_TEST_DATA")
    folder = Path(named) if named else ROOT.parent / "shared"
    if not (folder / "models").is_dir():
        where = "TRIUNE_TEST_DATA" if named else "set TRIUNE_TEST_DATA"
        pytest.skip(f"no test data: {folder} holds no folder 'models' ({where})")
    return folder


@pytest.fixture(scope="session")
def video() -> Callable[[Path, Sequence[Any]], Path]:
    """Return what writes pictures, uint8 RGB (H, W, 3), into a video file, ten a second; or skip without a decoder."""
    if importlib.util.find_spec("cv2") is None and importlib.util.find_spec("av") is None:
        pytest.skip("no decoder of videos: neither OpenCV nor PyAV is installed")

    def with_cv2(file: Path, pictures: Sequence[Any]) -> Path:
        import cv2

        height, width = pictures[0].shape[:2]
        writer = cv2.VideoWriter(str(file), cv2.VideoWriter_fourcc(*"mp4v"), 10, (width, height))
        for pixels in pictures:
            writer.write(pixels[..., ::-1].copy())
        writer.release()
        return file

    def with_av(file: Path, pictures: Sequence[Any]) -> Path:
        import av

        with av.open(str(file), "w") as container:
            stream = container.add_stream("mpeg4", rate=10)
            stream.height, stream.width = pictures[0].shape[:2]
            stream.pix_fmt = "yuv420p"
            for pixels in pictures:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            container.mux(stream.encode())
        return file

    return with_av if importlib.util.find_spec("cv2") is None else with_cv2
