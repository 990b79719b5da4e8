"""Models that compute one result of several images of a batch: a program computes each image alone, and says so."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import triune
from triune.cli import main

TOGETHER = {
    "ReduceMean": "m = ReduceMean<axes = [0, 1, 2]>(r) y = Sub(r, m)",
    "ReduceMax": "m = ReduceMax(r) y = Sub(r, m)",
    "Softmax": "y = Softmax<axis = 0>(r)",
    "TopK": "y, i = TopK<axis = 0>(r, one)",
    "MatMul": "t = Transpose<perm = [1, 2, 0]>(r) u = Transpose<perm = [1, 0, 2]>(r) y = MatMul(t, u)",
}
APART = {
    "ReduceMean": "m = ReduceMean<axes = [-1, -2]>(r) y = Sub(r, m)",
    "Softmax": "y = Softmax<axis = -1>(r)",
    "MatMul": "t = Transpose<perm = [0, 2, 1]>(r) y = MatMul(r, t)",
    "Softmax of rows": "f = Reshape(r, rows) y = Softmax<axis = 1>(f)",
}


def model(path: Path, body: str, batch: str = "N") -> Path:
    random = np.random.default_rng(2)
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 13]>
        images (float[{batch},6,8] x) => (float y) {{ p = MatMul(x, w) r = Relu(p) {body} }}""")
    made.graph.output[0].CopyFrom(onnx.helper.make_value_info("y", onnx.TypeProto()))
    made.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    made.graph.initializer.append(numpy_helper.from_array(random.standard_normal((8, 8)).astype(np.float32), "w"))
    made.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    made.graph.initializer.append(numpy_helper.from_array(np.array([-1, 48]), "rows"))
    onnx.save(made, path)
    return path


def samples() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(3)
    return [{"x": random.standard_normal((1, 6, 8), np.float32)} for _ in range(20)]


@pytest.mark.parametrize("operator", TOGETHER)
def test_what_takes_images_together_is_named(tmp_path: Path, operator: str) -> None:
    package = triune.compile(
        model(tmp_path / "images.onnx", TOGETHER[operator]), output=tmp_path / "out", calibration=samples()
    )
    report = package.report
    assert report.together is not None
    assert report.together[1] == operator
    assert report.mixing is not None
    assert report.mixing in report.table()
    fixed = triune.compile(
        model(tmp_path / "one.onnx", TOGETHER[operator], "1"), output=tmp_path / "one", calibration=samples()
    )
    assert fixed.report.together is None


@pytest.mark.parametrize("form", APART)
def test_what_takes_each_image_alone_is_not(tmp_path: Path, form: str) -> None:
    package = triune.compile(
        model(tmp_path / "images.onnx", APART[form]), output=tmp_path / "out", calibration=samples()
    )
    assert package.report.together is None
    assert package.report.mixing is None


def test_the_command_line_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = model(tmp_path / "images.onnx", TOGETHER["ReduceMean"])
    np.savez(tmp_path / "x.npz", x=np.concatenate([each["x"] for each in samples()]))
    given = ["compile", str(path), "--calibrate", str(tmp_path / "x.npz"), "-o", str(tmp_path / "out")]
    assert main(given) == 0
    said = re.sub(r"\s+", " ", capsys.readouterr().err)
    assert "(ReduceMean) takes the images of a batch together, and a program computes each alone" in said
    assert main([*given[:-1], str(tmp_path / "icraft"), "--target", "zg330", "--format", "icraft"]) == 0
    assert "takes the images of a batch together" in re.sub(r"\s+", " ", capsys.readouterr().err)
