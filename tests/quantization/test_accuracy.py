"""Real networks answer as in float, and no worse than with ONNX Runtime's static quantization.

The whole table, over hundreds of photos: benches/python/bench_quantization.py, whose parts these tests use.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import triune
from triune.quantization._check import check_outputs

pytest.importorskip("PIL.Image")


@pytest.fixture(scope="module")
def bench(root: Path) -> Iterator[ModuleType]:
    """Return the benchmark as a module."""
    path = root / "benches" / "python" / "bench_quantization.py"
    spec = importlib.util.spec_from_file_location("bench_quantization", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Tried:
    """A model, and its inputs for calibration and for a look at the results."""

    def __init__(self, bench: ModuleType, name: str, data: Path, scratch: Path, count: int = 13) -> None:
        self.bench = bench
        self.case = next(case for case in bench.CASES if case.name == name)
        self.scratch = scratch
        self.model = self.case.make(data, scratch)
        originals = bench.photos(data, self.case.photos)
        self.calibration = self._inputs(bench.augmented(originals, 13, seed=100))
        self.tested = self._inputs(bench.augmented(originals, count, seed=7))
        self.reference = bench.run(self.model, self.tested)

    def _inputs(self, images: list[Any]) -> list[dict[str, Any]]:
        return [{self.case.input: self.case.prepare(image)} for image in images]

    def theirs(self) -> list[dict[str, Any]]:
        """Return what ONNX Runtime's quantizer makes of it."""
        path = self.bench.quantize_static(self.model, self.scratch / "theirs.onnx", self.calibration)
        found: list[dict[str, Any]] = self.bench.run(path, self.tested)
        return found

    def ours(self, **options: Any) -> list[dict[str, Any]]:
        """Return what ours makes of it."""
        result = triune.quantize(self.model, calibration=self.calibration, output=self.scratch / "ours.onnx", **options)
        assert not any("spoiled" in warning for warning in result.warnings)
        found: list[dict[str, Any]] = self.bench.run(result.path, self.tested)
        return found

    def level(self, found: list[dict[str, Any]]) -> float:
        """Return the least signal to noise ratio of the outputs, in dB."""
        return min(check.sqnr for check in check_outputs(self.reference, found, list(self.reference[0])))


@pytest.mark.parametrize("name", ["squeezenet", "mobilenet"])
def test_classifiers(bench: ModuleType, test_data: Path, tmp_path: Path, name: str) -> None:
    tried = Tried(bench, name, test_data, tmp_path, 26)
    ours = tried.ours()
    assert bench.score(tried.reference, ours).share >= 0.92
    # A photo more or less says little; what is lost does.
    assert tried.level(ours) > tried.level(tried.theirs()) + 1


def test_a_detector_with_its_decode(bench: ModuleType, test_data: Path, tmp_path: Path) -> None:
    """UltraFace: each face of float is found, nearly all within a tenth of its box."""
    tried = Tried(bench, "ultraface", test_data, tmp_path)
    ours, theirs = bench.score(tried.reference, tried.ours()), bench.score(tried.reference, tried.theirs())
    assert ours.of > 100
    assert ours.loosely >= ours.of - 1
    assert ours.added == 0
    assert ours.share >= 0.95
    assert ours.share > theirs.share


def test_a_hard_detector_with_its_decode(bench: ModuleType, test_data: Path, tmp_path: Path) -> None:
    """YOLOX-nano, whose channels differ a hundredfold in front of its SiLUs and behind: a row of factors round each."""
    tried = Tried(bench, "yolox", test_data, tmp_path, 6)
    plain, ours = (bench.score(tried.reference, tried.ours(equalize=equalize)) for equalize in (False, True))
    assert ours.of > 10
    assert plain.loosely < 0.8 * plain.of
    assert ours.loosely >= 0.9 * ours.of
    assert ours.share > plain.share + 0.2


def test_a_share_of_a_classifier_s_answers(bench: ModuleType, test_data: Path, tmp_path: Path) -> None:
    """SqueezeNet: best classes are kept by leaving some layers in float, and not the whole network."""
    tried = Tried(bench, "squeezenet", test_data, tmp_path, 26)
    result = triune.quantize(tried.model, calibration=tried.calibration, output=tmp_path / "q.onnx", mixed="100%")
    (found,) = result.agreements
    assert (found.what, found.same, found.of) == ("best classes", 13, 13)
    assert result.held_out == 0
    assert any("few to show 100%" in line for line in result.advice)
    assert result.macs["8"] > 0.3 * sum(result.macs.values())
    assert bench.score(tried.reference, bench.run(result.path, tried.tested)).share >= 0.92
