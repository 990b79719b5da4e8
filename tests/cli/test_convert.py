"""``triune convert``: a network as ONNX, as a MegEngine model and back gives the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import triune
from triune import _native
from triune.cli import main


@pytest.fixture
def mnist(test_data: Path) -> Path:
    return test_data / "models" / "onnx" / "mnist8_f32.onnx"


def test_there_and_back(mnist: Path, tmp_path: Path) -> None:
    there, back = tmp_path / "mnist.mge", tmp_path / "mnist.onnx"
    assert main(["convert", str(mnist), str(there)]) == 0
    assert there.read_bytes()[8:12] == b"mgv2"
    assert main(["convert", str(there), str(back), "--shape", "Input3=1,1,28,28"]) == 0
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    (want,), (got,) = (triune.Session(path).run({"Input3": image}) for path in (mnist, back))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_what_is_wrong_is_said(mnist: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, text in [
        ([str(mnist), str(tmp_path / "a.tflite")], "suffix"),
        ([str(mnist), str(tmp_path / "a.mge"), "--shape", "nobody=1"], "--shape: unknown input 'nobody'"),
        ([str(tmp_path / "none.onnx"), str(tmp_path / "a.mge")], "none.onnx"),
        ([str(mnist), str(tmp_path / "no" / "a.mge")], "a.mge"),
    ]:
        assert main(["convert", *arguments]) == 1
        assert text in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["convert", str(mnist), str(tmp_path / "a.mge"), "--shape", "x"])


@pytest.mark.parametrize("name", ["AES_default", "RC4_default", "SIMPLE_FAST_RC4_default"])
def test_ciphers_and_packing(name: str) -> None:
    model = bytes(range(256))
    secret = _native.encrypt(name, model)
    assert _native.decrypt(name, secret) == model
    packed = _native.pack_model("net", secret, info=b"{}", model_decryption=name)
    parts = _native.unpack_model(packed)
    assert (parts["name"], parts["model"], parts["model_decryption"]) == ("net", secret, name)
    with pytest.raises(RuntimeError, match=name):
        _native.decrypt(name, secret, b"short")


def test_fixed_inputs_fix_the_outputs(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    # Extents that the file works out of its input's, and an output without any.
    nodes = [
        helper.make_node("Shape", ["x"], ["extents"]),
        helper.make_node("Gather", ["extents", "last"], ["columns"]),
        helper.make_node("Concat", ["rest", "columns"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    numbers = [
        onnx.numpy_helper.from_array(np.asarray([value], np.int64), name) for name, value in (("last", 2), ("rest", -1))
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", 3, "columns"])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph(nodes, "net", [x], [y], numbers), opset_imports=[helper.make_opsetid("", 13)]
    )
    onnx.save(model, tmp_path / "open.onnx")
    assert main(["convert", str(tmp_path / "open.onnx"), str(tmp_path / "fixed.onnx"), "--shape", "x=2,3,5"]) == 0
    (result,) = triune.Session(tmp_path / "fixed.onnx").outputs
    assert tuple(result)[:3] == ("y", "float32", (6, 5))
    # The file itself says it, to whoever reads it.
    (said,) = onnx.load(tmp_path / "fixed.onnx").graph.output
    assert [dim.dim_value for dim in said.type.tensor_type.shape.dim] == [6, 5]
    # Of a part of the extents nothing follows, and nothing is said.
    assert main(["convert", str(tmp_path / "open.onnx"), str(tmp_path / "same.onnx")]) == 0
    assert not onnx.load(tmp_path / "same.onnx").graph.output[0].type.tensor_type.HasField("shape")
