"""MegEngine models with operators whose results' extents depend on data: what meets a condition, boxes that are kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import lite_models as models
import mge_files
import numpy as np
import numpy.typing as npt
import pytest

from triune import _native
from triune.megenginelite import LiteConfig, LiteDeviceType, LiteNetwork

BOXES, LEAST, OVERLAP, MOST = 6, 0.3, 0.5, 4
GREATER = 4

Arrays = dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module")
def detector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a detector's last part: boxes whose score is high, of which those that overlap a better one are dropped."""
    file = mge_files.File()
    boxes, scores = file.input("boxes", [BOXES, 4]), file.input("scores", [BOXES])
    taken, places = file.add("CondTake", [scores, scores], 2, param=(25, {0: GREATER, 1: LEAST}))
    # One index for axis 0.
    by_index = {0: np.array([(0, 0, 0, 0, 1)], "i1,i1,i1,i1,i1")}
    (picked,) = file.add("IndexingMultiAxisVec", [boxes, places], param=(66, by_index))
    # A new axis in front.
    (batch,) = file.add("Dimshuffle", [picked], param=(64, {0: np.array([-1, 0, 1], np.int32), 1: 2}))
    keep, count = file.add("NMSKeep", [batch], 2, param=(69, {0: OVERLAP, 1: MOST}))
    (percent,) = file.add("Elemwise", [taken, file.constant(np.array([100], np.float32))], param=(17, {0: 21}))
    path = tmp_path_factory.mktemp("detector") / "net.mge"
    outputs = {"percent": percent, "places": places, "picked": picked, "keep": keep, "count": count}
    return file.write(path, outputs)


def area(box: npt.NDArray[np.float32]) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def overlap(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    shared = float(np.prod(np.maximum(high - low, 0)))
    return shared / (area(a) + area(b) - shared)


def expected(boxes: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]) -> Arrays:
    places = np.flatnonzero(scores > LEAST).astype(np.int32)
    kept: list[int] = []
    for index, box in enumerate(boxes[places]):
        if len(kept) < MOST and all(overlap(box, boxes[places[other]]) <= OVERLAP for other in kept):
            kept.append(index)
    keep = [*kept, *[kept[-1] if kept else 0] * (MOST - len(kept))]
    return {
        "percent": scores[places] * np.float32(100),
        "places": places,
        "picked": boxes[places],
        "keep": np.array([keep], np.int32),
        "count": np.array([len(kept)], np.int32),
    }


def inputs() -> list[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Return boxes and scores of several runs: some, none, all, and the first again."""
    given = []
    for low in (0.0, -2.0, 0.5, 0.1, 0.2):
        corners = models.RNG.random((BOXES, 2), np.float32) * 2
        boxes = np.concatenate([corners, corners + 1 + models.RNG.random((BOXES, 2), np.float32)], 1)
        given.append((boxes.astype(np.float32), models.RNG.random(BOXES, np.float32) + np.float32(low)))
    return [*given, given[0]]


def set_inputs(network: LiteNetwork, boxes: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]) -> None:
    network.get_io_tensor("boxes").set_data_by_copy(boxes)
    network.get_io_tensor("scores").set_data_by_copy(scores)


def results(network: LiteNetwork) -> Arrays:
    names = network.get_all_output_name()
    assert names is not None
    for name in names:
        tensor = network.get_io_tensor(name)
        assert tensor.layout.shapes == list(tensor.to_numpy().shape)
    return {name: network.get_io_tensor(name).to_numpy() for name in names}


def check(found: Arrays, wanted: Arrays) -> None:
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name].reshape(array.shape), array), name
        assert found[name].shape == array.shape


def loaded(model: Path, threads: int = 1) -> LiteNetwork:
    network = LiteNetwork()
    network.threads_number = threads
    network.load(model)
    return network


@pytest.mark.parametrize("threads", [1, 2])
def test_run_after_run(detector: Path, threads: int) -> None:
    network = loaded(detector, threads)
    assert network.get_all_output_name() == ["percent", "places", "picked", "keep", "count"]
    for name in ("percent", "places", "picked"):
        assert network.get_io_tensor(name).layout.ndim == 0, "nobody knows before a run"
    counts = set()
    for boxes, scores in inputs():
        set_inputs(network, boxes, scores)
        network.forward()
        network.wait()
        check(results(network), expected(boxes, scores))
        counts.add(len(results(network)["places"]))
    assert {0, BOXES} < counts


def test_async(detector: Path) -> None:
    network = loaded(detector)
    seen: list[Arrays] = []
    network.async_with_callback(lambda: seen.append(results(network)))
    wanted = []
    for boxes, scores in inputs():
        set_inputs(network, boxes, scores)
        network.forward()
        network.wait()
        wanted.append(expected(boxes, scores))
    assert len(seen) == len(wanted)
    for found, want in zip(seen, wanted, strict=True):
        check(found, want)

    async def one(boxes: npt.NDArray[np.float32], scores: npt.NDArray[np.float32]) -> Arrays:
        network = loaded(detector)
        set_inputs(network, boxes, scores)
        await network.forward_async()
        return results(network)

    async def every() -> list[Arrays]:
        return await asyncio.gather(*(one(*given) for given in inputs()))

    given = inputs()
    found = asyncio.run(one(*given[0]))
    check(found, expected(*given[0]))
    assert len(asyncio.run(every())) == len(given)


def test_packed_and_shared(detector: Path, tmp_path: Path) -> None:
    (tmp_path / "net.lite").write_bytes(_native.pack_model("net", detector.read_bytes()))
    source = loaded(tmp_path / "net.lite")
    other = LiteNetwork()
    other.share_weights_with(source)
    for boxes, scores in inputs():
        for network in (source, other):
            set_inputs(network, boxes, scores)
            network.forward()
            network.wait()
            check(results(network), expected(boxes, scores))


def test_a_wrong_shape_is_an_error(detector: Path) -> None:
    network = loaded(detector)
    given = inputs()[0]
    set_inputs(network, given[0][:, :3].copy(), given[1])
    with pytest.raises(RuntimeError, match="boxes"):
        network.forward()
    set_inputs(network, *given)
    network.forward()
    check(results(network), expected(*given))


def test_an_npu_without_8_bit_operators_is_said(
    detector: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whether any part runs on the device shows as the parts are planned: not an error, but in the log and the profile."""
    monkeypatch.setenv("TRIUNE_LITE_DEVICES", "npu=metis")
    network = LiteNetwork(LiteConfig(LiteDeviceType.LITE_NPU))
    network.load(detector)
    network.enable_profile_performance(tmp_path / "profile.json")
    for boxes, scores in inputs():
        set_inputs(network, boxes, scores)
        network.forward()
        network.wait()
        check(results(network), expected(boxes, scores))
    said = [record.message for record in caplog.records if "8-bit operators" in record.message]
    assert len(said) == 1
    assert "all of it ran on the host" in (tmp_path / "profile.json").read_text()


def test_machine_code_is_refused_by_name(tmp_path: Path) -> None:
    for kind in ("ExternCOprRunner", "MC20RuntimeOpr"):
        file = mge_files.File()
        (result,) = file.add(kind, [file.input("x", [1])])
        path = file.write(tmp_path / "net.mge", {"y": result})
        with pytest.raises(RuntimeError, match=rf"{kind}_1.*machine code for third-party hardware"):
            loaded(path)
