"""`load_model` and `load_model_instance`: what they take, what they refuse and how they say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.axelera.runtime import Context, IncompatibleDevice, InvalidArgument, Model
from triune.models import DIGITS_INT8, digits_held_out

LOAD = [
    "aipu_cores",
    "num_sub_devices",
    "input_dmabuf",
    "device_profiling",
    "host_profiling",
    "output_dmabuf",
    "double_buffer",
    "elf_in_ddr",
]


@pytest.fixture
def copy(package: Path, tmp_path: Path) -> Path:
    """Return the model.json of a copy that may be damaged."""
    shutil.copytree(package.parent, tmp_path / "copy")
    return tmp_path / "copy" / "model.json"


def test_path_or_str(context: Context, package: Path) -> None:
    assert context.load_model(package).inputs() == context.load_model(str(package)).inputs()


def test_tensors(model: Model) -> None:
    (source,) = model.inputs()
    (result,) = model.outputs()
    assert source.unpadded_shape == (1, 8, 8, 1)
    assert source.shape[3] == 4
    assert result.unpadded_shape == (1, 1, 1, 10)
    assert result.shape == (1, 1, 1, 64)
    assert source.dtype == result.dtype == np.int8, "the vendor's programs allocate int8, whatever the network's type"
    assert (source.name, result.name) == ("image", "logits")


def test_tensors_are_the_callers_own(model: Model) -> None:
    model.inputs()[0].scale = 99.0
    assert model.inputs()[0].scale != 99.0


def test_without_manifest_there_is_no_quantization(context: Context, copy: Path) -> None:
    copy.with_name("manifest.json").unlink()
    info = context.load_model(copy).inputs()[0]
    assert (info.scale, info.zero_point, info.padding) == (1.0, 0, [(0, 0)] * 4)


@pytest.fixture
def named(copy: Path) -> Path:
    """Return the model.json of a copy whose manifest is of version 1.1."""
    file = copy.with_name("manifest.json")
    more = {
        "manifest_version": "1.1",
        "input_names": ["image"],
        "output_names": ["logits"],
        "model_metadata": {"name": "digits"},
    }
    file.write_text(json.dumps(json.loads(file.read_text()) | more))
    return copy


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "quantize_params",
            [[0.5, -128]],
            r"quantize_params\[0\]: model.json has \[0.0039\d*, -128\], here is \[0.5, -128\]",
        ),
        ("quantize_params", [], "quantize_params: expected one for each of 1 tensors, got 0 of them"),
        ("quantize_params", None, "quantize_params: expected one for each of 1 tensors, got NoneType"),
        ("dequantize_params", [[0.04485108703374863, -14]], "dequantize_params.*, -15.* here is .*, -14"),
        ("dequantize_params", [[True, -15]], "dequantize_params"),
        ("input_shapes", [[1, 10, 16, 3]], r"input_shapes\[0\]: model.json has \[1, 10, 16, 4\]"),
        ("output_shapes", [[1, 1, 1, 64.0]], "output_shapes"),
        ("input_dtypes", ["uint8"], r"input_dtypes\[0\]: model.json has int8, here is uint8"),
        ("n_padded_ch_inputs", [[0, 0, 1, 1, 1, 7, 3, 0]], "n_padded_ch_inputs"),
        ("n_padded_ch_outputs", [[0] * 7], "n_padded_ch_outputs"),
        ("input_names", ["picture"], r"input_names\[0\]: model.json has image, here is picture"),
        ("output_names", None, "output_names"),
        ("input_tensor_layout", "NCHW", "input_tensor_layout: model.json has NHWC, here is NCHW"),
        ("postprocess_graph", "post.onnx", "postprocess_graph: model.json has None, here is post.onnx"),
        ("model_metadata", [], "model_metadata: expected an object, got list"),
    ],
)
def test_a_manifest_that_says_something_else(
    context: Context, named: Path, field: str, value: Any, message: str
) -> None:
    file = named.with_name("manifest.json")
    manifest = json.loads(file.read_text())
    context.load_model(named)
    file.write_text(json.dumps(manifest | {field: value}))
    with pytest.raises(InvalidArgument, match=rf"manifest\.json: {message}.*compile the model again"):
        context.load_model(named)
    del manifest[field]
    file.write_text(json.dumps(manifest))
    if field == "model_metadata":
        context.load_model(named)
        return
    with pytest.raises(InvalidArgument, match=f"{field} is missing"):
        context.load_model(named)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "\0", "[" * 100_000])
def test_a_damaged_manifest(context: Context, copy: Path, text: str) -> None:
    copy.with_name("manifest.json").write_text(text)
    with pytest.raises(InvalidArgument, match=r"manifest\.json: (not JSON|expected an object)"):
        context.load_model(copy)


def test_versions_of_manifests(context: Context, copy: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = copy.with_name("manifest.json")
    manifest = json.loads(file.read_text())
    for name in ("input_names", "output_names", "model_metadata"):
        manifest.pop(name, None)
    # Scales with the digits that a float32 has.
    manifest["quantize_params"] = [[float(str(np.float32(scale))), zero] for scale, zero in manifest["quantize_params"]]
    file.write_text(json.dumps(manifest | {"manifest_version": "1.0"}))
    assert context.load_model(copy).inputs()[0].scale == pytest.approx(1 / 255)
    assert caplog.text == ""
    file.write_text(json.dumps(manifest | {"manifest_version": "2.0"}))
    context.load_model(copy)
    assert "manifest_version: known are 1.0 and 1.1, got '2.0'" in caplog.text


def test_properties(model: Model) -> None:
    assert model.properties == {"preamble_graph": "", "postamble_graph": "", "input_tensor_layout": "NHWC"}


def test_batch_is_the_first_extent(context: Context, package_of_two: Path) -> None:
    model = context.load_model(package_of_two)
    assert model.inputs()[0].shape[0] == model.outputs()[0].shape[0] == 2


def test_directory(context: Context, package: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"expected a model.json file, got the directory .*; try .*model.json"):
        context.load_model(package.parent)


def test_missing_file(context: Context, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="does not exist"):
        context.load_model(tmp_path / "model.json")


def test_no_path(context: Context) -> None:
    with pytest.raises(InvalidArgument, match="path: expected str or Path, got int"):
        context.load_model(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("elf", [True, False])
def test_models_of_the_vendors_compiler(context: Context, tmp_path: Path, elf: bool) -> None:
    (tmp_path / "model.json").write_text(json.dumps({"inputs": [{"shape": [1, 230, 240, 4]}], "outputs": []}))
    if elf:
        (tmp_path / "kernel_function_0.elf").write_bytes(b"\x7fELF")
    with pytest.raises(IncompatibleDevice, match="triune compile"):
        context.load_model(tmp_path / "model.json")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 3}', "\x00\xff"])
def test_nonsense(context: Context, tmp_path: Path, text: str) -> None:
    (tmp_path / "model.json").write_text(text)
    with pytest.raises((InvalidArgument, IncompatibleDevice), match=r"model\.json"):
        context.load_model(tmp_path / "model.json")


def test_truncated_payload(context: Context, copy: Path) -> None:
    payload = copy.with_name("constants.bin")
    payload.write_bytes(payload.read_bytes()[:-1])
    with pytest.raises(InvalidArgument, match=r"constants\.bin"):
        context.load_model(copy)


def test_edited_payload(context: Context, copy: Path) -> None:
    payload = copy.with_name("constants.bin")
    content = bytearray(payload.read_bytes())
    content[0] ^= 1
    payload.write_bytes(content)
    with pytest.raises(InvalidArgument, match=r"constants\.bin"):
        context.load_model(copy)


def test_an_onnx_file(context: Context, tmp_path: Path) -> None:
    """The way to go on, ready to be pasted."""
    model = tmp_path / "my model.onnx"
    model.write_bytes(DIGITS_INT8.read_bytes())
    with pytest.raises(InvalidArgument, match=f"the ONNX file.*`triune compile '{model}' --target metis -o DIR`"):
        context.load_model(model)


def test_newer_package(context: Context, copy: Path) -> None:
    content = json.loads(copy.read_text())
    content["schema_version"] += 1
    copy.write_text(json.dumps(content))
    with pytest.raises(InvalidArgument, match="version"):
        context.load_model(copy)


@pytest.mark.parametrize("name", LOAD)
@pytest.mark.parametrize("value", [0, 1, False, True, np.int64(1)])
def test_every_property_takes_ints_and_bools(context: Context, model: Model, name: str, value: Any) -> None:
    context.device_connect().load_model_instance(model, **{name: value})


def test_all_properties_at_once(context: Context, model: Model) -> None:
    context.device_connect().load_model_instance(model, **dict.fromkeys(LOAD, 1))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"doublebuffer": 1},
            "unknown property 'doublebuffer'; valid are aipu_cores, num_sub_devices, .*double_buffer",
        ),
        ({"double_buffer": 2}, "double_buffer: expected 0, 1, False or True, got 2"),
        ({"double_buffer": "1"}, "double_buffer: expected 0, 1, False or True, got '1'"),
        ({"host_profiling": None}, "host_profiling: expected 0, 1, False or True, got None"),
        ({"aipu_cores": -1}, "aipu_cores: expected a number of at least 0, got -1"),
        ({"aipu_cores": 1.0}, "aipu_cores: expected a number of at least 0, got 1.0"),
        ({"aipu_cores": 5}, "aipu_cores: expected 0 to 4, got 5"),
        ({"num_sub_devices": 2}, "num_sub_devices: expected at most 1 .*, got 2"),
    ],
)
def test_wrong_properties(context: Context, model: Model, properties: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        context.device_connect().load_model_instance(model, **properties)


def test_one_core_may_take_all_of_l2(context: Context, model: Model) -> None:
    context.device_connect().load_model_instance(model, num_sub_devices=1, aipu_cores=4)


def test_instances_share_out_the_connections_sub_devices(context: Context, model: Model) -> None:
    connection = context.device_connect(None, 2)
    first = connection.load_model_instance(model)
    second = connection.load_model_instance(model)
    with pytest.raises(InvalidArgument, match=r"at most 0 \(the connection has 2, its other instances hold 2"):
        connection.load_model_instance(model)
    first.release()
    third = connection.load_model_instance(model)
    del second
    connection.load_model_instance(model)
    assert third.context is context


def test_a_batch_needs_as_many_sub_devices(context: Context, package_of_two: Path) -> None:
    model = context.load_model(package_of_two)
    with pytest.raises(InvalidArgument, match=r"num_sub_devices: expected at most 1 .* got 2"):
        context.device_connect().load_model_instance(model)
    connection = context.device_connect(None, 2)
    with pytest.raises(InvalidArgument, match=r"num_sub_devices: expected at least 2, .* got 1"):
        connection.load_model_instance(model, num_sub_devices=1)
    connection.load_model_instance(model, num_sub_devices=2, aipu_cores=2)


def test_model_of_another_context(context: Context, package: Path) -> None:
    with Context() as other, pytest.raises(InvalidArgument, match="another context"):
        context.device_connect().load_model_instance(other.load_model(package))


def test_no_model(context: Context) -> None:
    with pytest.raises(InvalidArgument, match="model: expected a Model, got str"):
        context.device_connect().load_model_instance("model.json")  # type: ignore[arg-type]


def with_a_tail(folder: Path) -> Path:
    """Return a model whose last operator, a float one, stays on the host."""
    onnx = pytest.importorskip("onnx")
    model = onnx.load(DIGITS_INT8)
    model.graph.node.append(onnx.helper.make_node("Exp", [model.graph.output[0].name], ["powers"], name="tail"))
    model.graph.output.append(onnx.helper.make_tensor_value_info("powers", 1, None))
    del model.graph.output[0]
    onnx.save(model, folder / "tail.onnx")
    return folder / "tail.onnx"


def test_properties_name_the_parts_on_the_host(context: Context, tmp_path: Path) -> None:
    package = triune.compile(with_a_tail(tmp_path), target="metis", output=tmp_path / "out")
    model = context.load_model(package / "model.json")
    assert model.properties["preamble_graph"] == ""
    postamble = tmp_path / "out" / model.properties["postamble_graph"]
    read = {name for name, *_ in triune.Session(postamble).inputs}
    assert read <= {info.name for info in model.outputs()}


def test_documented_lines_for_the_parts_on_the_host(context: Context, tmp_path: Path) -> None:
    """Buffers of the card to the model's own tensors, through the postamble graph: what the whole model computes."""
    source = with_a_tail(tmp_path)
    package = triune.compile(source, target="metis", output=tmp_path / "out")
    model = context.load_model(package / "model.json")
    (read,), images = model.inputs(), digits_held_out()[0][:1]
    buffers = [np.zeros(info.shape, np.int8) for info in model.outputs()]
    instance = context.device_connect().load_model_instance(model)
    instance.run([read.quantize(images)], buffers)

    shapes = json.loads((package / "manifest.json").read_text())["output_shapes_original"]
    tensors = {}
    for info, buffer, shape in zip(model.outputs(), buffers, shapes, strict=True):
        real = info.dequantize(buffer)
        tensors[info.name] = np.ascontiguousarray(np.moveaxis(real, -1, 1) if len(shape) == 4 else real).reshape(shape)
    postamble = triune.Session(package / model.properties["postamble_graph"])
    (found,) = postamble.run({info.name: tensors[info.name] for info in postamble.inputs})
    (expected,) = triune.Session(source).run({"image": images.transpose(0, 3, 1, 2)})
    np.testing.assert_array_equal(found, expected)
