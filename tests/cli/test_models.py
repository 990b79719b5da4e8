"""Commands that take a bare model: `run`, `predict`, `bench`, `inspect`; and what commands say of files that they do not take."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import triune
from triune import _native
from triune._model_info import labels_of
from triune.batch import Preprocess
from triune.cli import main
from triune.icraft import xir, xrt
from triune.icraft.host_backend import HostBackend
from triune.models import DIGITS_INT8, digits_held_out

COUNT = 12


@pytest.fixture(scope="module")
def scans() -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(digits_held_out()[0][:COUNT].transpose(0, 3, 1, 2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, scans: npt.NDArray[np.float32]) -> Path:
    """Return a folder with a file per scan. Do not write into it."""
    made = tmp_path_factory.mktemp("scans")
    for index, scan in enumerate(scans):
        np.save(made / f"{index:02}.npy", scan)
    return made


@pytest.fixture(scope="module")
def logits(scans: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
    return triune.Session(DIGITS_INT8).run({"image": scans})[0]


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    (tmp_path / "labels.txt").write_text("".join(f"digit {number}\n" for number in range(10)))
    return tmp_path / "labels.txt"


def test_run_on_the_cpu(
    tmp_path: Path,
    scans: npt.NDArray[np.float32],
    logits: npt.NDArray[Any],
    labels: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    np.save(tmp_path / "a.npy", scans[:5])
    (tmp_path / "more").mkdir()
    np.save(tmp_path / "more" / "b.npy", scans[5:6])
    files = [str(tmp_path / "a.npy"), str(tmp_path / "more")]
    arguments = ["run", str(DIGITS_INT8), "--input", *files, "--threads", "0"]
    assert main([*arguments, "--labels", str(labels), "--profile"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("logits: float32 (6, 10) min ")
    assert f"  {files[0]}[4]: best digit {logits[4].argmax()} (" in out
    assert f"  {tmp_path / 'more' / 'b.npy'}: best digit {logits[5].argmax()} (" in out
    assert "mean of 10 runs" in out
    assert main([*arguments, "--output", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as found:
        assert np.array_equal(found["logits"], logits[:6])


def test_run_to_standard_output(folder: Path, logits: npt.NDArray[Any]) -> None:
    command = [sys.executable, "-m", "triune", "run", DIGITS_INT8, "--input", folder / "03.npy", "--output", "-"]
    # A file has one image, so that it needs the batch's axis.
    np.save(folder.parent / "one.npy", np.load(folder / "03.npy")[None])
    command[6] = folder.parent / "one.npy"
    done = subprocess.run(list(map(str, command)), check=True, capture_output=True)
    with zipfile.ZipFile(io.BytesIO(done.stdout)) as archive, archive.open("logits.npy") as entry:
        assert np.array_equal(np.load(io.BytesIO(entry.read())), logits[3:4])


def test_predict(
    folder: Path, tmp_path: Path, labels: Path, logits: npt.NDArray[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["predict", str(DIGITS_INT8), str(folder)]
    assert main([*command, "--top", "2", "--labels", str(labels)]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["source"] for row in rows] == sorted(map(str, folder.glob("*.npy")))
    assert [int(row["class_1"]) for row in rows] == logits.argmax(1).tolist()
    assert rows[0]["label_1"] == f"digit {rows[0]['class_1']}"
    assert main([*command, "--top", "0", "--format", "jsonl", "--batch", "5", "--workers", "2"]) == 0
    found = [json.loads(line)["logits"] for line in capsys.readouterr().out.splitlines()]
    assert np.array_equal(np.array(found, np.float32), logits)
    assert main([*command, str(folder / "0*.npy"), "-o", str(tmp_path / "out.csv")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out.csv'}: {COUNT + 10} rows\n"
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + COUNT + 10


def test_predict_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    scans, digits = digits_held_out()
    for index, scan in enumerate(scans[:9]):
        image.fromarray((scan[..., 0] * 255).astype(np.uint8)).resize((16, 16)).save(tmp_path / f"{index}.png")
    (tmp_path / "5.png").write_bytes(b"no picture")
    assert main(["predict", str(DIGITS_INT8), str(tmp_path), "--on-error", "skip", "--top", "1"]) == 0
    captured = capsys.readouterr()
    rows = list(csv.DictReader(captured.out.splitlines()))
    expected = {f"{tmp_path / str(index)}.png": digits[index] for index in range(9) if index != 5}
    assert [row["source"] for row in rows] == list(expected)
    assert np.mean([int(row["class_1"]) == expected[row["source"]] for row in rows]) > 0.7
    assert captured.err.count("\n") == 1
    assert "triune: warning: left out" in captured.err
    assert "5.png: not an image that can be read" in captured.err
    assert main(["predict", str(DIGITS_INT8), str(tmp_path)]) == 1
    assert "5.png: not an image that can be read" in capsys.readouterr().err


def test_a_reader_of_predictions_that_has_seen_enough(folder: Path) -> None:
    command = f"{sys.executable} -m triune predict {DIGITS_INT8} {folder} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.stdout.endswith("\n0\n")
    assert done.stderr == ""


def test_bench(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    command = ["bench", str(DIGITS_INT8), "--seconds", "0.05", "--batch", "1", "3", "--threads", "1", "2"]
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["threads"], row["batch"]) for row in rows] == [(1, 1), (1, 3), (2, 1), (2, 3)]
    for row in rows:
        assert row["min_ms"] <= row["p50_ms"] <= row["p90_ms"] <= row["p99_ms"] <= row["max_ms"]
        assert row["images_per_second"] == pytest.approx(1000 * row["batch"] / row["mean_ms"], rel=0.01)
    assert main([*command[:4], "--against", "onnxruntime"]) == 0
    head, mine, peer = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "ratio"
    assert mine.split()[0] == "triune"
    assert peer.split()[0] == "onnxruntime"
    assert float(mine.split()[-1]) > 0
    with pytest.raises(SystemExit):
        main([*command[:4], "--against", "onnxruntime,openvno"])
    assert "unknown runtime 'openvno'; did you mean 'openvino'?" in capsys.readouterr().err
    assert main(["bench", str(DIGITS_INT8), "--shape", "imge=1,1,8,8"]) == 1
    assert "--shape: unknown input 'imge'; did you mean 'image'? the model has image" in capsys.readouterr().err


def test_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(DIGITS_INT8), "--json", "--shape", "image=3,1,8,8"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["inputs"] == [{"name": "image", "dtype": "float32", "shape": ["N", 1, 8, 8], "kind": "tensor"}]
    assert found["operators"]["Conv"] == 4
    macs = found["macs"]
    assert main(["inspect", str(DIGITS_INT8), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["macs"] * 3 == macs
    package = triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "package", batch=2)
    for path in (package, package / "model.json"):
        assert main(["inspect", str(path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["target"], found["batch"], found["operators"]["Conv"]) == ("metis", 2, 4)
    (tmp_path / "m.lite").write_bytes(_native.pack_model("digits", b"0123456789", info=list(b'{"name": "digits"}')))
    assert main(["inspect", str(tmp_path / "m.lite")]) == 0
    out = capsys.readouterr().out
    assert "packed model of MegEngine Lite" in out
    assert "model cipher   NONE" in out
    for path in (DIGITS_INT8, package):
        assert main(["inspect", str(path)]) == 0
        out = capsys.readouterr().out
        assert "4 Conv" in out
        assert max(map(len, out.splitlines())) < 160


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"digit {number}\n" for number in range(10)),
        json.dumps([f"digit {number}" for number in range(10)]),
        json.dumps({str(number): [f"n{number}", f"digit {number}"] for number in reversed(range(10))}),
        "{" + ",\n ".join(f"{number}: 'digit {number}'" for number in range(10)) + "}\n",
    ],
    ids=["lines", "JSON list", "JSON dict of ImageNet's form", "Python dict"],
)
def test_names_of_classes_in_every_form(text: str, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text(text)
    assert labels_of(tmp_path / "labels.txt") == tuple(f"digit {number}" for number in range(10))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"cat": 0}', "expected names by the numbers of their classes, 0 and on, got the key 'cat'"),
        ('{"0": "cat", "2": "dog"}', "there is no name for class 1, of 2"),
        ('["cat", 3]', "class 1: expected a name, got 3"),
    ],
)
def test_names_of_classes_in_no_form(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "labels.json").write_text(text)
    with pytest.raises(triune.errors.ArgumentError, match=re.escape(f"{tmp_path / 'labels.json'}: {message}")):
        labels_of(tmp_path / "labels.json")


def test_brackets_in_lines_are_names(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("[background]\ncat\n")
    assert labels_of(tmp_path / "labels.txt") == ("[background]", "cat")


def test_a_class_more_than_names(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "labels.txt").write_text("name\n" * 9)
    np.save(tmp_path / "scans.npy", np.load(folder / "00.npy")[None])
    package = triune.compile(DIGITS_INT8, target="metis", output=tmp_path / "package")
    for command in (
        "run {model} --input {arrays} --labels {labels}",
        "predict {model} {arrays} --labels {labels}",
        # Before the work: what is not there is not looked for.
        "run {model} --input {arrays}.npy --labels {labels} --output {labels}.npz",
        "run {package} --input {arrays}.npy --labels {labels}",
    ):
        arrays = tmp_path / "scans.npy"
        names = {"model": DIGITS_INT8, "package": package, "arrays": arrays, "labels": tmp_path / "labels.txt"}
        assert main(command.format(**names).split()) == 1
        told = capsys.readouterr().err
        assert "expected 10, one per class" in told
        assert "got 9; if the model's class 0 is what is none of them (background), put a name for it in front" in told


@pytest.mark.parametrize("count", ["classes", "2"])
def test_labels_are_of_the_output_that_has_as_many_classes(
    count: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 2] x) => (float[n, 3] features, float[n, {count}] scores) {{
            features = Concat <axis = 1> (x, one)
            scores = Neg (x)
        }}"""
    onnx = pytest.importorskip("onnx")
    model = pytest.importorskip("onnx.parser").parse_model(text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 1), np.float32), "one"))
    onnx.save(model, tmp_path / "two.onnx")
    np.save(tmp_path / "x.npy", np.float32([[1, 2]]))
    command = ["run", str(tmp_path / "two.onnx"), "--input", str(tmp_path / "x.npy"), "--labels", str(tmp_path / "l")]
    (tmp_path / "l").write_text("cat\ndog\n")
    assert main(command) == 0
    told = capsys.readouterr().out
    assert "best 1 (2), 0 (1), 2 (1)" in told
    assert "best cat (-1), dog (-2)" in told
    (tmp_path / "l").write_text("cat\n" * 5)
    assert main(command) == 1
    assert "--labels: expected 3, one per class of 'features', got 5" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["zg330", "buyi"])
def test_packages_bring_their_card(
    target: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = triune.compile(DIGITS_INT8, target=target, output=tmp_path / target)
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))
    np.save(tmp_path / "scan.npy", np.load(folder / "00.npy")[None])
    found = {}
    for cards in ("pcie", "none", None, str(tmp_path / "cards.toml")):
        (tmp_path / "cards.toml").write_text(_native.device_of(target)[1])
        monkeypatch.delenv("TRIUNE_CARDS", raising=False) if cards is None else monkeypatch.setenv(
            "TRIUNE_CARDS", cards
        )
        out = tmp_path / "out.npz"
        assert (
            main(["run", str(package), "--input", str(tmp_path / "scan.npy"), "--output", str(out), "--profile"]) == 0
        )
        assert os.environ.get("TRIUNE_CARDS") == cards
        assert "cycles" in capsys.readouterr().err
        with np.load(out) as results:
            found[cards] = results["logits"]
    (expected,) = triune.Session(DIGITS_INT8).run(None, {"image": np.load(folder / "00.npy").reshape(1, 1, 8, 8)})
    assert all(each.argmax() == expected.argmax() for each in found.values())
    # Its functional model is the CPU's arithmetic; BUYI's shifts are its own.
    assert target == "buyi" or all(np.array_equal(each, expected) for each in found.values())


def test_imagenet_is_an_option_of_every_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    parser = pytest.importorskip("onnx.parser")
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 3, 8, 8] x) => (float[n, 3, 8, 8] y) { y = Identity (x) }'
    )
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    pixels = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    image.fromarray(pixels).save(tmp_path / "picture.png")
    command = ["run", str(tmp_path / "model.onnx"), "--input", str(tmp_path / "picture.png")]
    how = Preprocess.imagenet()
    expected = np.empty((3, 8, 8), np.float32)
    for options, changed in (([], how), (["--std", "0.5"], replace(how, std=(0.5,)))):
        out = tmp_path / "out.npz"
        assert main([*command, "--imagenet", *options, "--output", str(out)]) == 0
        changed.write(tmp_path / "picture.png", changed.frame("x", "float32", ("n", 3, 8, 8)), expected)
        with np.load(out) as results:
            assert np.array_equal(results["y"][0], expected)
    for verb in ("run", "predict", "compare", "quantize", "compile"):
        with pytest.raises(SystemExit):
            main([verb, "--help"])
        assert "--imagenet" in capsys.readouterr().out


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> dict[str, Path]:
    """Return a file or folder of every kind that some command does not take."""
    made = tmp_path_factory.mktemp("others")
    triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=made / "networks")
    network = xir.Network.CreateFromJsonFile(made / "networks" / "digits_int8_ZG.json")
    network.loadParamsFromFile(made / "networks" / "digits_int8_ZG.raw")
    network.dumpFlatToFile(made / "x.fb")
    xrt.Session.Create([HostBackend], network.view(0), [xrt.HostDevice.Default()]).dumpSnapshot(made / "x.snapshot")
    (made / "m.lite").write_bytes(_native.pack_model("digits", b"0123456789"))
    (made / "x.json").write_text('{"a": 1}')
    with zipfile.ZipFile(made / "x.axm", "w") as archive:
        archive.writestr("model.json", "{}")
    (made / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (made / "empty").mkdir()
    np.savez(made / "images.npz", image=np.arange(128, dtype=np.float32).reshape(2, 1, 8, 8))
    (made / "nothing.onnx").write_bytes(b"")
    (made / "pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n")
    (made / "page.onnx").write_text("\n<!DOCTYPE html><html></html>")
    (made / "notes.onnx").write_text("Größe: unbekannt\n" * 300)
    with zipfile.ZipFile(made / "m.pt", "w") as archive:
        archive.writestr("m/data.pkl", b"")
    (made / "m.tflite").write_bytes(b"\x1c\0\0\0TFL3\0\0\0\0")
    (made / "m.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    (made / "m.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    (made / "m.xml").write_text('<?xml version="1.0"?>\n<net name="m" version="11">\n')
    bare = triune.compile(DIGITS_INT8, target="metis", output=made / "bare")
    (Path(bare) / "manifest.json").unlink()
    return {
        "onnx": DIGITS_INT8,
        "package": triune.compile(DIGITS_INT8, target="metis", output=made / "package"),
        "zg330": triune.compile(DIGITS_INT8, target="zg330", output=made / "zg330"),
        "networks": made / "networks",
        "network": made / "networks" / "digits_int8_ZG.json",
        "parameters": made / "networks" / "digits_int8_ZG.raw",
        "flat": made / "x.fb",
        "snapshot": made / "x.snapshot",
        "axm": made / "x.axm",
        "lite": made / "m.lite",
        "json": made / "x.json",
        "picture": made / "x.png",
        "empty": made / "empty",
        "nothing": made / "nothing.onnx",
        "pointer": made / "pointer.onnx",
        "page": made / "page.onnx",
        "bare": made / "bare",
        "text": made / "notes.onnx",
        "torch": made / "m.pt",
        "tflite": made / "m.tflite",
        "keras": made / "m.h5",
        "weights": made / "m.safetensors",
        "openvino": made / "m.xml",
        "archive": made / "images.npz",
        "arrays": folder / "00.npy",
    }


@pytest.mark.parametrize(
    ("command", "messages"),
    [
        ("run {zg330} --input {arrays} --device 0", ["compiled for zg330", "is a metis"]),
        ("run {network} --input {arrays}", ["is an Icraft network", "triune.icraft.xrt.Session"]),
        ("run {networks} --input {arrays}", ["is a folder of Icraft's networks", "choose one of its .json files"]),
        ("run {lite} --input {arrays}", ["is a packed model of MegEngine Lite", "LiteNetwork loads it"]),
        ("run {empty} --input {arrays}", ["is a folder without a model.json"]),
        ("run {onnx} --input {arrays} --device 0", ["--device is for packages", "triune compile"]),
        (
            "profile {onnx}",
            ["is an ONNX model", "triune profile takes a package for a card", "triune compile {onnx} -o DIR"],
        ),
        ("report {onnx} -o page.html", ["is an ONNX model", "triune report takes a package"]),
        ("explore {lite} --sweep clock=400", ["is a packed model", "triune explore takes an ONNX model or a package"]),
        ("bench {package}", ["is a package for a card", "triune run, profile, report, explore and inspect take it"]),
        ("predict {arrays} {picture}", ["is a file of arrays", "triune run MODEL --input {arrays}"]),
        ("inspect {nothing}", ["is an empty file", "download it again"]),
        ("compile {pointer} -o x", ["is a pointer of Git LFS", "git lfs pull"]),
        ("run {page} --input {arrays}", ["is a web page"]),
        ("inspect {text}", ["is a text", "models are .onnx and .mge files"]),
        ("predict {torch} {picture}", ["is a file of PyTorch", "torch.onnx.export"]),
        ("compile {tflite} -o x", ["is a TensorFlow Lite model", "tf2onnx"]),
        ("inspect {keras}", ["is a file of Keras", "model.export"]),
        ("bench {weights}", ["is a file of weights alone", "docs/pytorch.md"]),
        ("bench {openvino}", ["is an OpenVINO model"]),
        ("run {bare} --input {arrays}", ["there is no manifest.json", "compile the model again"]),
        ("compare {onnx} {bare} --inputs {archive}", ["there is no manifest.json", "compile the model again"]),
        ("predict {json} {picture}", ["is a JSON document, no network"]),
        ("predict {onnx} {picture} -o x.xls", ["--output: expected a name that ends in .csv, .jsonl, .parquet, or -"]),
        ("compile {package} -o x", ["is a package for a card", "triune compile takes an ONNX model"]),
        ("quantize {picture} --calibrate {arrays} -o x", ["is a picture", "triune predict MODEL {picture}"]),
        ("run {axm} --input {arrays}", ["is a package for a card in one file", "python -m zipfile -e {axm} DIR"]),
        ("axrun {axm}", ["expected a model.json file, got the archive", "op.load takes archives"]),
        ("profile {flat}", ["is an Icraft network in FlatBuffers form", "Network.CreateFromFlatFile"]),
        ("bench {parameters}", ["is a file of an Icraft network's parameters", "the .json file beside it"]),
        ("run {snapshot} --input {arrays}", ["is a snapshot of an Icraft session", "Session.CreateWithSnapshot"]),
        ("inspect {network}", ["is an Icraft network", "triune profile takes it"]),
        (
            "convert {onnx} x.mge --shape imge=1,1,8,8",
            ["error: --shape: unknown input 'imge'; did you mean 'image'? the model has image"],
        ),
        ("bench nowhere", ["nowhere: there is no such file or folder"]),
    ],
)
def test_no_dead_ends(
    others: dict[str, Path], command: str, messages: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([argument.format(**others) for argument in command.split()]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    for message in messages:
        assert message.format(**others) in told


def test_sessions_say_what_a_file_is(others: dict[str, Path]) -> None:
    for path, message in (
        ("lite", "is a packed model of MegEngine Lite, not an ONNX model"),
        ("picture", "is a picture, not"),
        ("nothing", "is an empty file, not"),
        ("pointer", "is a pointer of Git LFS to a file that was not fetched, not an ONNX model: git lfs pull"),
        ("page", "is a web page, not"),
        ("flat", "is an Icraft network in FlatBuffers form, not"),
    ):
        for source in (others[path], others[path].read_bytes()):
            with pytest.raises(triune.errors.FormatError, match=message) as raised:
                triune.Session(source)
            assert raised.value.format == "ONNX"


@pytest.mark.parametrize("samples", [None, [{"image": np.zeros((1, 1, 8, 8), np.float32)}]])
def test_compile_says_what_a_file_is(
    others: dict[str, Path], tmp_path: Path, samples: list[dict[str, Any]] | None
) -> None:
    for name, message in (("lite", "is a packed model"), ("json", "is a JSON document"), ("page", "is a web page")):
        with pytest.raises(triune.errors.FormatError, match=f"{message}.*, not an ONNX model: "):
            triune.compile(others[name], target="metis", output=tmp_path / "made", calibration=samples)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["inspet", "x"], "did you mean inspect?"),
        (["predict", "x", "y", "--bacth", "3"], "unrecognized arguments: --bacth 3; did you mean --batch?"),
        (["run", "x", "--input", "y", "--lable=z"], "did you mean --labels?"),
        (["predict", "x", "y", "--fit", "strech"], "did you mean stretch?"),
        (["compat", "rum", "x"], "did you mean run?"),
        (["run", "x", "--inptu", "y"], "required: --input; unrecognized: --inptu; did you mean --input?"),
    ],
)
def test_what_was_meant(arguments: list[str], meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert meant in capsys.readouterr().err


def test_tables_to_standard_output(others: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(others["package"]), "--json", "-"]) == 0
    captured = capfd.readouterr()
    assert json.loads(captured.out)["device"] == "metis"
    assert "bound by" in captured.err
    assert main(["profile", str(others["package"]), "--json", "-", "--csv", "-"]) == 1
    assert "two results cannot go to one file" in capfd.readouterr().err


def test_clocks_are_set(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TRIUNE_CARDS", "pcie,m2")
    assert main(["devices", "--set-clock", "400", "--device", "metis-0:2:0"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Device 1: metis-0:2:0")
    assert "clock=400MHz(0-3:400MHz) mvm" in out, "in force"
    assert main(["devices", "--json"]) == 0
    assert [card["settings"]["clock_profile"] for card in json.loads(capsys.readouterr().out)] == ["800", "400"]
    assert main(["devices", "--set-clock", "200"]) == 0
    assert capsys.readouterr().out.count("clock=200MHz") == 2
    for arguments, words in (
        (["--set-clock", "5"], "20 to 1000"),
        (["--set-clock", "400", "-d", "metis-0:3:0"], "did you mean 'metis-0:"),
        (["-d", "7"], "unknown device '7'; the devices are metis-0:1:0"),
    ):
        assert main(["devices", *arguments]) == 1
        assert words in capsys.readouterr().err
    monkeypatch.setenv("TRIUNE_CARDS", "none")
    assert main(["devices", "--set-clock", "400"]) == 1
    assert "there are no devices" in capsys.readouterr().err


def test_devices_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices", "--json"]) == 0
    (card,) = json.loads(capsys.readouterr().out)
    assert (card["number"], card["device"], card["sub_devices"]) == (0, "metis", 4)
    assert card["settings"]["clock_profile"]


@pytest.mark.parametrize(("changes", "colored"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_color_is_for_terminals(changes: dict[str, str], colored: bool) -> None:
    environment = {**os.environ, "TERM": "xterm", **changes}
    if "NO_COLOR" not in changes:
        environment.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "triune", "bench", "nowhere"]
    done = subprocess.run(command, stderr=theirs, env=environment)
    os.close(theirs)
    told = os.read(ours, 4096).decode()
    os.close(ours)
    assert done.returncode == 1
    assert ("\x1b[31merror\x1b[0m" in told) == colored
    piped = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert piped.stderr == "triune: error: nowhere: there is no such file or folder\n"
