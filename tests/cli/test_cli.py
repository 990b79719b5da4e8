"""The command line: what it prints, what it exits with, and that errors are one line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import triune
from triune.batch import Preprocess
from triune.cli import main, run
from triune.cli.data import Input, load
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out


@pytest.fixture(autouse=True)
def own_cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test cards of its own."""
    monkeypatch.setenv("TRIUNE_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("TRIUNE_CARDS", raising=False)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the digits network for batches of 2."""
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("digits"), batch=2)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Return a file with five scans, NCHW."""
    np.save(tmp_path / "images.npy", digits_held_out()[0][:5].transpose(0, 3, 1, 2))
    return tmp_path / "images.npy"


def best(out: str) -> list[int]:
    """Return the best class of each image, from what `triune run` prints."""
    return [int(number) for number in re.findall(r"^  image \d+: best (\d+) \(", out, re.MULTILINE)]


def test_compile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(DIGITS_INT8), "--target", "metis", "-o", str(tmp_path / "out"), "--batch", "2"]) == 0
    captured = capsys.readouterr()
    path, _, sides, device, host, *_ = captured.out.splitlines()
    assert path == str(tmp_path / "out" / "model.json")
    assert sides.split() == ["side", "operators", "MACs", "share"]
    assert (device.split()[0], device.split()[-1], host.split()[0], host.split()[-1]) == (
        "metis",
        "100.0%",
        "host",
        "0.0%",
    )
    assert captured.err == "", "no progress where nobody watches"
    assert (tmp_path / "out" / "manifest.json").exists()


def test_compile_verbose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(DIGITS_INT8), "-o", str(tmp_path / "out"), "-v"]) == 0
    said = capsys.readouterr().err
    assert "compiling" in said
    assert "policy exact keeps 0 B of 3.5 MiB on chip" in said, "Metis' L1 keeps bands of cascades alone"


def test_compile_with_little_on_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["compile", str(DIGITS_INT8), "-o", str(out), "-v", "--residency", "option1", "--on-chip", "1100"]
    assert main([*arguments, "--target", "zg330"]) == 0
    assert "policy option1 keeps 1.0 KiB of 1.1 KiB on chip" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["npz", "images"])
def test_compile_a_float_model(tmp_path: Path, capsys: pytest.CaptureFixture[str], images: Path, kind: str) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    scans, labels = digits_held_out()
    if kind == "npz":
        source = tmp_path / "calibration.npz"
        np.savez(source, image=scans[100:200].transpose(0, 3, 1, 2))
    else:
        image = pytest.importorskip("PIL.Image")
        source = tmp_path / "calibration"
        source.mkdir()
        for index, scan in enumerate(scans[100:140]):
            image.fromarray((scan[..., 0] * 255).astype(np.uint8)).save(source / f"{index}.png")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "triune", "compile", str(DIGITS_F32), "-o", str(out)]
    done = subprocess.run([*command, "--calibrate", str(source)], check=True, capture_output=True, text=True)
    assert done.stderr == "", "the quantizer says nothing that nobody can act on"
    assert main(["run", str(out), "--input", str(images)]) == 0
    assert best(capsys.readouterr().out) == labels[:5].tolist()


def test_run(package: Path, images: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(package), "--input", str(images)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("logits: float32 (5, 10) min ")
    assert best(out) == digits_held_out()[1][:5].tolist()


def test_run_equals_the_session(package: Path, images: Path, tmp_path: Path) -> None:
    """Batches on the card, the last one not full, and the CPU: the same bits."""
    out = tmp_path / "out.npz"
    assert main(["run", str(package / "model.json"), "--input", str(images), "--output", str(out)]) == 0
    (expected,) = triune.Session(DIGITS_INT8).run({"image": np.ascontiguousarray(np.load(images))})
    with np.load(out) as found:
        assert found.files == ["logits"]
        assert np.array_equal(found["logits"].view(np.uint32), expected.view(np.uint32))


def test_run_an_image(package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    scan = (digits_held_out()[0][0, ..., 0] * 255).astype(np.uint8)
    image.fromarray(scan).save(tmp_path / "scan.png")
    assert main(["run", str(package), "--input", str(tmp_path / "scan.png"), "--profile"]) == 0
    out = capsys.readouterr().out
    assert "(1, 10) min" in out
    assert best(out) == [digits_held_out()[1][0]]
    assert "Conv" in out
    assert "cycles" in out


@pytest.mark.parametrize("arguments", [["--mean", "1", "2"], ["--std", "1", "2", "3"]])
def test_numbers_per_channel(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("L", (8, 8)).save(tmp_path / "x.png")
    assert main(["run", str(package), "--input", str(tmp_path / "x.png"), *arguments]) == 1
    assert f"{arguments[0]}: expected 1 value for input 'image', got {len(arguments) - 1}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (Preprocess(), [1, 0.4, 0.2]),
        (Preprocess(scale=1.0, color="bgr"), [51, 102, 255]),
        (Preprocess(mean=(0.2, 0, 0), std=(1, 2, 1), color="bgr"), [0, 0.2, 1]),
    ],
)
def test_pixels(tmp_path: Path, pixels: Preprocess, expected: list[float]) -> None:
    image = pytest.importorskip("PIL.Image")
    image.new("RGB", (4, 2), (255, 102, 51)).save(tmp_path / "x.png")
    array = load(tmp_path / "x.png", [Input("x", (1, 3, 4, 6))], pixels)["x"]
    assert (array.dtype, array.shape) == (np.float32, (1, 3, 4, 6))
    assert np.allclose(array, np.asarray(expected, np.float32)[None, :, None, None], atol=1e-6)


def test_scores_with_trailing_axes(capsys: pytest.CaptureFixture[str]) -> None:
    scores = np.zeros((1, 1000, 1, 1), np.float32)
    scores[0, [3, 7, 8], 0, 0] = [0.5, 0.75, -1]
    text = list(run._summary("softmax", scores))
    assert text == [
        "softmax: float32 (1, 1000, 1, 1) min -1 max 0.75",
        "  image 0: best 7 (0.75), 3 (0.5), 0 (0), 1 (0), 2 (0)",
    ]
    assert len(list(run._summary("boxes", np.zeros((1, 10, 4), np.float32)))) == 1
    assert list(run._summary("x", np.zeros((12, 2), np.float32)))[-1] == "  … 2 more"


@pytest.mark.parametrize(("size", "text"), [(2**34, "16GiB"), (3 * 2**20, "3MiB"), (1024, "1KiB"), (1000, "1000B")])
def test_memory_in_whole_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: int, text: str
) -> None:
    (tmp_path / "cards.toml").write_text(f"[[card]]\nmax_memory = {size}\n")
    monkeypatch.setenv("TRIUNE_CARDS", str(tmp_path / "cards.toml"))
    assert main(["devices"]) == 0
    assert f"metis-0:1:0 {text} pcie" in capsys.readouterr().out


def test_devices(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from triune.axelera.runtime import Context

    monkeypatch.setenv("TRIUNE_CARDS", "pcie,m2")
    with Context() as context:
        context.configure_device(1, clock_profile_core_3=400, mvm_utilisation_core_0=50)
        connection = context.device_connect(0, 3)
        assert main(["devices"]) == 0
        first, second = capsys.readouterr().out.splitlines()
        assert first.startswith("Device 0: metis-0:1:0 pcie flver=")
        assert f":{os.getpid()}" in first
        assert " in use: 0-2:" in first
        # A clock takes its time to lock, and may have by now.
        assert "clock=800MHz(0-2:800MHz,3:400MHz) mvm=0:50%,1-3:100%" in second.replace(" (pending)", "")
        connection.release()


def test_no_devices(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIUNE_CARDS", "none")
    assert main(["devices"]) == 0
    assert capsys.readouterr().out == "no devices\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compile", "{tmp}/no.onnx", "-o", "{tmp}/out"], "no.onnx"),
        (["compile", "{images}", "-o", "{tmp}/out"], "images.npy"),
        (["compile", str(DIGITS_F32), "-o", "{tmp}/out"], "--calibrate"),
        (["compile", str(DIGITS_INT8), "-o", "{tmp}/out", "--target", "atari"], "atari"),
        (["compile", str(DIGITS_INT8), "-o", "{tmp}/out", "--batch", "5"], "5"),
        (["compile", str(DIGITS_INT8), "-o", "{images}/out"], "images.npy"),
        (["run", "{tmp}", "--input", "{images}"], "model.json"),
        (["run", "{package}", "--input", "{tmp}/no.npy"], "no.npy"),
        (
            ["run", "{package}", "--input", "{package}/model.json"],
            "expected .npy, .npz, an image or a video, got .json",
        ),
        (["run", "{package}", "--input", "{wrong}"], "input 'image': expected shape (N, 1, 8, 8), got (1, 2, 3)"),
        (["run", "{package}", "--input", "{images}", "--device", "7"], "no device number 7"),
        (["run", "{package}", "--input", "{images}", "--device", "metis-9:9:9"], "no device named 'metis-9:9:9'"),
        (["compile", str(DIGITS_INT8), "-o", "{tmp}/out", "--target", "host"], "triune.Session"),
        (
            ["compile", str(DIGITS_INT8), "-o", "{images}"],
            "images.npy: expected a directory for the package, got a file",
        ),
        (
            ["compile", "{images}", "-o", "{tmp}/out"],
            "images.npy is a file of arrays, and triune compile takes an ONNX model",
        ),
        (["run", "{images}", "--input", "{images}"], "triune run MODEL --input "),
        (["run", "{package}", "--input", "{pickled}"], "pickled.npy: not an array file that can be read: "),
        (["run", "{package}", "--input", "{nan}"], "input 'image': expected finite values"),
        (["run", "{package}", "--input", "{other}"], "other.npz: unknown input 'picture'; the model has image"),
        (["run", "{package}", "--input", "{extra}"], "extra.npz: unknown input 'picture'; the model has image"),
        (["run", "{package}", "--input", "{none}"], "none.npz: input 'image': expected an array, got none"),
        (["run", "{package}", "--input", "{broken}"], "broken.npz: not an array file that can be read: "),
        (["run", "{package}", "--input", "{text}"], "text.png: not an image that can be read: "),
        (["run", "{package}", "--input", "{images}", "--output", "{tmp}/no/out.npz"], "out.npz: there is no directory"),
        (["run", "{package}", "--input", "{images}", "--output", "{tmp}"], ": Is a directory"),
        (["compat", "run", "{tmp}/no.py"], "no.py"),
    ],
)
def test_errors_are_one_line(
    package: Path, images: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((1, 2, 3), np.float32))
    np.save(tmp_path / "pickled.npy", np.array([{}], object))
    np.save(tmp_path / "nan.npy", np.full((1, 1, 8, 8), np.nan, np.float32))
    np.savez(tmp_path / "other.npz", picture=np.load(images))
    np.savez(tmp_path / "extra.npz", image=np.load(images), picture=np.load(images))
    np.savez(tmp_path / "none.npz")
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "text.png").write_text("no image")
    files = ("wrong.npy", "pickled.npy", "nan.npy", "other.npz", "extra.npz", "none.npz", "broken.npz", "text.png")
    names = {"tmp": tmp_path, "images": images, "package": package}
    names |= {Path(file).stem: tmp_path / file for file in files}
    assert main([argument.format(**names) for argument in arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("triune: error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["compile"],
        ["run", "x"],
        ["compile", "x", "-o", "y", "--batch", "0"],
        ["run", "x", "--input", "y", "--std", "0"],
        ["run", "x", "--input", "y", "--scale", "0"],
        ["run", "x", "--input", "y", "--mean", "nan"],
        ["bench", "x", "--seconds", "0"],
        ["predict", "x", "y", "--part", "1.5"],
        ["inspect", "x", "--shape", "y"],
    ],
)
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        main(arguments)
    assert exited.value.code == 2
    assert "usage: triune" in capsys.readouterr().err


def test_version_and_module() -> None:
    command = [sys.executable, "-m", "triune", "--version"]
    assert subprocess.check_output(command, text=True) == f"triune {triune.__version__}\n"


@pytest.mark.parametrize("start", ["from triune.cli import main; sys.exit(main(['--version']))", "RUN"])
@pytest.mark.parametrize("module", ["argparse", "triune.cli.run", "triune.cli.parser", "numpy"])
def test_interrupts_while_it_starts(module: str, start: str) -> None:
    """Ctrl-C as a module is imported, at both beginnings of the command line."""
    program = f"""
import sys

class Interrupted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.stderr.write("asked")
            raise KeyboardInterrupt

sys.argv = ["triune", "--version"]
# What the interpreter's own start brought.
for name in [one for one in sys.modules if one.partition(".")[0] == {module!r}]:
    del sys.modules[name]
sys.meta_path.insert(0, Interrupted())
""" + start.replace("RUN", "import runpy; runpy.run_module('triune', run_name='__main__', alter_sys=True)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "asked")


def test_a_reader_that_has_seen_enough() -> None:
    command = f"{sys.executable} -m triune devices | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_run_of_a_detector(test_data: Path, tmp_path: Path) -> None:
    """A detector that is on the card to its last Softmax: outputs in the model's own order of axes."""
    source = test_data / "models" / "onnx" / "ultraface_u8s8_qdq.onnx"
    assert main(["compile", str(source), "-o", str(tmp_path / "out")]) == 0
    session = triune.Session(source)
    ((name, _, shape),) = session.inputs
    image = np.random.default_rng(3).normal(0, 0.5, [1, *shape[1:]]).astype(np.float32)  # type: ignore[list-item]
    np.save(tmp_path / "x.npy", image)
    out = tmp_path / "out.npz"
    assert main(["run", str(tmp_path / "out"), "--input", str(tmp_path / "x.npy"), "--output", str(out)]) == 0
    expected = dict(zip([name for name, *_ in session.outputs], session.run({name: image}), strict=True))
    with np.load(out) as found:
        assert set(found.files) == set(expected)
        assert np.array_equal(found["boxes"], expected["boxes"])
        assert np.array_equal(found["scores"], expected["scores"])


@pytest.mark.parametrize("number", ["0", "-1", "1.5", "much", "99999999999999999999"])
def test_numbers_out_of_range_are_refused_by_name(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compile", "model.onnx", f"--on-chip={number}"])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert "--on-chip" in told
    assert number in told


@pytest.mark.parametrize(("text", "number"), [("1100", 1100), ("512K", 512 << 10), ("2m", 2 << 20), ("1G", 1 << 30)])
def test_sizes_end_in_powers_of_1024(text: str, number: int) -> None:
    from triune.cli.arguments import byte_count

    assert byte_count(text) == number


def test_sizes_that_63_bits_do_not_hold_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compile", "model.onnx", "-o", "out", "--on-chip", "99999999T"])
    assert "99999999T" in capsys.readouterr().err


def test_two_results_in_one_file_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, table = tmp_path / "package", tmp_path / "table"
    assert main(["compile", str(DIGITS_INT8), "-o", str(out)]) == 0
    assert main(["profile", str(out), "--csv", str(table), "--json", str(table)]) == 1
    assert "two results" in capsys.readouterr().err
    assert not table.exists()


def test_axrun(package: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rates = []
    for arguments in ([], ["--no-double-buffer"], ["--cores", "2"]):
        assert main(["axrun", str(package), "--seconds", "0.2", *arguments]) == 0
        modelled, measured = capsys.readouterr().out.splitlines()
        found = re.search(r"dev:([\d.]+)\s+host:([\d.]+)\s+system:([\d.]+)fps", modelled)
        assert found is not None
        assert re.search(r"host:[\d.]+ system:[\d.]+fps", measured)
        rates.append([float(number) for number in found.groups()])
    (device, host, system), (_, _, waiting), (half, _, fewer) = rates
    # Transfers beside runs help, and never beyond what cores alone would do.
    assert host <= waiting + 0.2 < system <= device
    assert half == pytest.approx(device / 2, rel=0.2)
    assert fewer < system
    for arguments, what in ((["--cores", "3"], "a multiple of 2"), (["-d", "nowhere"], "no device named")):
        assert main(["axrun", str(package / "model.json"), *arguments]) == 1
        assert what in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"), [("12 bytes of memory are needed", "out of memory: 12 bytes"), ("", "out of memory")]
)
def test_memory_that_there_is_not_is_one_line(
    text: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError(text)

    monkeypatch.setattr(triune.Session, "__init__", fail)
    assert main(["bench", str(DIGITS_INT8), "--seconds", "0.01"]) == 1
    assert capsys.readouterr().err.startswith(f"triune: error: {said}")


def test_a_closed_standard_output_is_said():
    program = "import os, sys; os.close(1); sys.stdout = None; from triune.cli import main; sys.exit(main(['devices']))"
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "triune: error: standard output is closed\n")
