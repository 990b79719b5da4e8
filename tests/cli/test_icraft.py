"""`triune icraft`: the vendor's commands over its TOML files."""

from __future__ import annotations

import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from triune.cli import main
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import HostDevice, Session, Tensor
from triune.models import DIGITS_F32, DIGITS_INT8, digits_held_out

pytest.importorskip("onnxruntime")
Image = pytest.importorskip("PIL.Image")

STEPS = ("parse", "optimize", "quantize", "adapt", "generate")

# As the vendor's manual has it, with this network's names.
TOML = """
[parse]
net_name = "digits"
framework = "Onnx"
inputs = [ 1, 8, 8, 1]
inputs_layout = "NHWC"
pre_method = "resize"
pre_scale = [ 255.0]
pre_mean = [ 0.0]
channel_swap = "nop"
network = "./digits.onnx"
jr_path = "./json&raw/"

[optimize]
json = "./json&raw/digits_parsed.json"
raw = "./json&raw/digits_parsed.raw"
jr_path = "./json&raw/"
target = "TARGET"

[quantize]
forward_mode = "image"
saturation = "kld"
forward_dir = "./images"
forward_list = "./list.txt"
bits = 8
json = "./json&raw/digits_optimized.json"
raw = "./json&raw/digits_optimized.raw"
jr_path = "./json&raw/"
per = "tensor"

[adapt]
json = "./json&raw/digits_quantized.json"
raw = "./json&raw/digits_quantized.raw"
jr_path = "./json&raw/"

[generate]
json = "./json&raw/digits_adapted.json"
raw = "./json&raw/digits_adapted.raw"
jr_path = "./json&raw/"
log_path = "./logs/"
no_mergeops = true

[run]
log_time = true
log_io = true
json = "./json&raw/digits_@END.json"
raw = "./json&raw/digits_@END.raw"
input = "./images/3.png"
backends = "BACKENDS"
dump_format = "SFB"
dump_ftmp = "9"
dump_output = true
log_path = "./logs/"
"""

FILES = {
    "BUYI": ("BY", "BY,axi://ql100aiu?npu=0x40000000&dma=0x80000000;Host"),
    "zhuge": ("ZG", "ZG330,axi://zg330aiu;Host"),
}

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return what writes the TOML file, some of its words replaced, beside a model and pictures."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS_F32, "digits.onnx")
    os.mkdir("images")
    scans = digits_held_out()[0][:24, :, :, 0]
    for number, scan in enumerate(scans):
        Image.fromarray(np.round(scan * 255).astype(np.uint8)).save(f"images/{number}.png")
    Path("list.txt").write_text("".join(f"{number}.png\n" for number in range(24)))

    def make(target: str = "zhuge", **words: str) -> Path:
        end, backends = FILES[target]
        text = TOML.replace("TARGET", target).replace("@END", end).replace("BACKENDS", backends)
        for old, new in words.items():
            assert f"{old} = " in text
            text = "\n".join(f"{old} = {new}" if line.startswith(f"{old} = ") else line for line in text.split("\n"))
        Path("digits.toml").write_text(text)
        return Path("digits.toml")

    return make


@pytest.mark.parametrize("target", FILES)
def test_every_step(target: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file, end = write(target), FILES[target][0]
    folder = Path("json&raw")
    for step, form in zip(STEPS, ("parsed", "optimized", "quantized", "adapted", end), strict=True):
        assert main(["icraft", step, str(file)]) == 0
        assert capsys.readouterr().out.strip() == str(folder / f"digits_{form}.json")
        network = Network.CreateFromJsonFile(str(folder / f"digits_{form}.json"))
        network.loadParamsFromFile(str(folder / f"digits_{form}.raw"))
        assert network.name == "digits"

    assert main(["icraft", "run", str(file)]) == 0
    out = capsys.readouterr().out
    assert "HardOp(Merged)" in out or target == "BUYI"
    assert "network wall" in out
    picture = np.asarray(Image.open("images/3.png"), np.float32).reshape(1, 8, 8, 1) / np.float32(255)
    adapted = Network.CreateFromJsonFile("json&raw/digits_adapted.json")
    adapted.loadParamsFromFile("json&raw/digits_adapted.raw")
    session = Session.Create([HostBackend], adapted.view(0), [HostDevice.Default()])
    session.apply()
    (wanted,) = session.forward([Tensor(picture, Layout("NHWC"))])
    number = adapted.outputs()[0].v_id
    dumped = np.fromfile(f"logs/digits/ftmpSFB/{number}.ftmp", np.float32)
    np.testing.assert_array_equal(dumped, np.asarray(wanted).reshape(-1))

    assert main(["icraft", "show", str(file), "--worst", "5", "--json", "rows.json", "--html", "page.html"]) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 7
    assert table[1].split() == ["value", "operator", *STEPS[1:]]
    rows = json.loads(Path("rows.json").read_text())
    assert all(row["optimize"]["cosine"] > 0.99999 for row in rows if "optimize" in row)
    # What is in front of an activation stands for its result: without that, some are at 0.6.
    assert min(row["quantize"]["cosine"] for row in rows) > 0.98
    assert {row["operator"] for row in rows} >= {"Conv2d", "ReLU", "Add"}
    page = Path("page.html").read_text()
    assert page.count("<tr>") == len(rows) + 1


def test_passes_put_logic_in(write: Write) -> None:
    file = write("BUYI")
    for step in STEPS[:-1]:
        assert main(["icraft", step, str(file)]) == 0
    passes = ["--pass_on", "customop.ImageMakePass"]

    def custom(more: list[str]) -> list[str]:
        assert main(["icraft", "adapt", str(file), *more]) == 0
        network = Network.CreateFromJsonFile("json&raw/digits_adapted.json")
        return [op.typeKey() for op in network.ops if "customop" in op.typeKey()]

    assert custom([]) == []
    assert custom(passes) == ["customop::ImageMakeNode"]
    with open(file, "a") as config:
        config.write("\n")
    text = Path(file).read_text()
    Path(file).write_text(text.replace("[quantize]", "[quantize]\nno_imagemake = true"))
    assert custom(passes) == []
    for wrong, said in (("customop.WarpAffinePass", "WarpAffinePass"), ("customop.DetPostPass", "detpost")):
        assert main(["icraft", "adapt", str(file), "--pass_on", wrong]) != 0, said


def test_what_is_for_a_wl170_is_refused_with_the_reason(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    for target in ("wolong", "WL170"):
        file = write("BUYI")
        file.write_text(file.read_text().replace('"BUYI"', f'"{target}"'))
        assert main(["icraft", "generate", str(file)]) != 0
        assert "target: there is no WL170 (Wolong)" in capsys.readouterr().err
    file = write("BUYI")
    assert main(["icraft", "parse", str(file)]) == 0
    Path("run.toml").write_text(
        '[run]\nnetwork = "digits"\njr_path = "json&raw"\nbackends = "WL170,axi://wl170;Host"\n'
        'json = "json&raw/digits_parsed.json"\nraw = "json&raw/digits_parsed.raw"\n'
    )
    assert main(["icraft", "run", "run.toml"]) != 0
    assert "[run] backends: there is no WL170" in capsys.readouterr().err


def test_options_of_quantization(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    results = {}
    for saturation in ("kld", "ems", "null"):
        for per in ("tensor", "channel"):
            file = write(saturation=f'"{saturation}"', per=f'"{per}"')
            for step in STEPS[:3]:
                assert main(["icraft", step, str(file)]) == 0
            results[saturation, per] = Path("json&raw/digits_quantized.json").read_bytes()
    assert len(set(results.values())) > 3
    file = write("BUYI", bits="16")
    assert main(["icraft", "compile", str(file)]) == 0
    assert "@sint(16)" in Path("json&raw/digits_BY.json").read_text()
    capsys.readouterr()
    for words, what in (
        ({"saturation": '"mse"'}, "saturation: expected kld, ems or null"),
        ({"per": '"row"'}, "per: expected tensor or channel"),
        ({"bits": "16"}, "16 bits are buyi's"),
        ({"bits": "4"}, "compute on int8"),
    ):
        assert main(["icraft", "quantize", str(write(**words))]) == 1
        assert what in capsys.readouterr().err
    assert main(["icraft", "quantize", str(write()), "--qdtype", "bf16"]) == 1
    assert "compute on int8" in capsys.readouterr().err


def test_a_quantized_model_and_raw_samples(write: Write) -> None:
    file = write()
    shutil.copy(DIGITS_INT8, "digits.onnx")
    for step in STEPS:
        assert main(["icraft", step, str(file)]) == 0
    shutil.copy(DIGITS_F32, "digits.onnx")
    for number in range(24):
        pixels = np.asarray(Image.open(f"images/{number}.png"), np.float32) / np.float32(255)
        pixels.tofile(f"images/{number}.ftmp")
    found = []
    for ending in ("png", "ftmp"):
        Path("list.txt").write_text("".join(f"{number}.{ending}\n" for number in range(24)))
        assert main(["icraft", "parse", str(file)]) == 0
        assert main(["icraft", "optimize", str(file)]) == 0
        assert main(["icraft", "quantize", str(file)]) == 0
        found.append(Path("json&raw/digits_quantized.json").read_bytes())
    assert found[0] == found[1]


def test_errors_name_the_cure(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: str) -> str:
        assert main(["icraft", *arguments]) == 1
        text = capsys.readouterr().err
        assert text.count("\n") == 1
        return text

    file = str(write())
    assert "triune icraft parse" in refused("optimize", file)
    assert "triune icraft quantize" in refused("adapt", file)
    assert main(["icraft", "parse", file]) == 0
    edited = Path("json&raw/digits_parsed.json")
    edited.write_text(edited.read_text().replace('"digits"', '"other"'))
    assert "is not what `triune icraft parse` makes" in refused("optimize", file)
    assert "no section [show]" not in refused("show", file)
    Path("images/2.png").unlink()
    assert main(["icraft", "parse", file]) == 0
    assert main(["icraft", "optimize", file]) == 0
    assert "2.png: there is no such file" in refused("quantize", file)
    assert "caffe" in refused("parse", str(write(framework='"caffe"', network='"./other.caffemodel"')))
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    Path("digits.pt").write_bytes(b"")
    Path("model").mkdir()
    shutil.copy("digits.pt", "model/digits.pt")
    assert "install torch" in refused("parse", str(write(framework='"pytorch"', network='"./model/digits.pt"')))
    Path("bad.toml").write_text("[parse\n")
    assert "no TOML" in refused("parse", "bad.toml")
    Path("bad.toml").write_text("[optimize]\n")
    assert "no section [parse]" in refused("optimize", "bad.toml")
    assert "targets differ: wolong, zhuge" in refused("parse", file, "--target", "wolong")
    Path("bad.toml").write_text(Path(file).read_text().replace('"zhuge"', '"wolong"'))
    assert "target: there is no WL170 (Wolong)" in refused("parse", "bad.toml")
    assert "there is no such file" in refused("parse", file, "--network", "nothing.onnx")
    assert "KEY VALUE" in refused("parse", file, "--network")


@pytest.mark.parametrize("verb", ["parse", "optimize", "quantize", "adapt", "generate", "compile", "run", "show"])
def test_what_is_no_text_file_is_refused(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    # As Windows' editors save it: a mark of the order of bytes, then pairs of them.
    Path("wide.toml").write_text("[parse]\n", encoding="utf-16")
    Path("marked.toml").write_bytes(b"\xef\xbb\xbf[parse]\n\xff")
    told = {
        "pipe": "cannot read pipe: it is a pipe, not a plain file",
        "/dev/zero": "cannot read /dev/zero: it is a device, not a plain file",
        "wide.toml": "cannot read wide.toml: it is no text in UTF-8: byte 0 is 0xff",
        "marked.toml": "cannot read marked.toml: it is no text in UTF-8: byte 11 is 0xff",
        "missing.toml": "cannot read missing.toml: No such file or directory",
    }
    for file, words in told.items():
        assert main(["icraft", verb, file]) == 1
        assert capsys.readouterr().err == f"triune: error: {words}\n"


def test_lists_and_elements_are_plain_files(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(write())
    for verb in ("parse", "optimize"):
        assert main(["icraft", verb, file]) == 0
    os.mkfifo("pipe")
    os.mkfifo("pipe.ftmp")
    os.mkfifo("pipe.txt")
    Path("wide.txt").write_text("0.png\n", encoding="utf-16")
    capsys.readouterr()
    for key, value, words in (
        ("forward_list", "pipe", "cannot read pipe: it is a pipe"),
        ("forward_list", "wide.txt", "cannot read wide.txt: it is no text in UTF-8"),
        ("forward_dir", ".", "it is a pipe"),
    ):
        Path("list.txt").write_text("pipe.ftmp\n")
        assert main(["icraft", "quantize", file, f"--{key}", value]) == 1
        assert words in capsys.readouterr().err
    Path("run.toml").write_text(
        """[run]\njson = "json&raw/digits_parsed.json"\nbackends = "Host"\ninput = "pipe.txt"\n"""
    )
    assert main(["icraft", "run", "run.toml"]) == 1
    assert capsys.readouterr().err == "triune: error: cannot read pipe.txt: it is a pipe, not a plain file\n"


def test_a_pytorch_model_with_an_onnx_file_beside_it(write: Write) -> None:
    file = write(framework='"pytorch"', network='"./digits.pt"')
    assert main(["icraft", "parse", str(file)]) == 0
    own = Network.CreateFromJsonFile("json&raw/digits_parsed.json")
    assert io.StringIO(own.name).read() == "digits"


@pytest.mark.parametrize(
    ("section", "key", "value", "said"),
    [
        ("parse", "net_name", "1", "expected a text, got 1"),
        ("parse", "inputs", "[-1, 8, 8, 1]", "expected extents"),
        ("parse", "inputs", '["a"]', "expected extents"),
        ("parse", "inputs", "8", "expected extents"),
        ("parse", "inputs", "[[1, 8, 8, 1], [0]]", "expected extents"),
        ("parse", "inputs_layout", "[1]", "expected a text"),
        ("parse", "pre_method", "1979-05-27", "expected a text"),
        ("parse", "pre_scale", "[nan]", "expected a number for each channel"),
        ("parse", "pre_scale", "[0.0]", "expected numbers other than 0"),
        ("parse", "pre_mean", '"a"', "expected a number for each channel"),
        ("parse", "pre_mean", "true", "expected a number for each channel"),
        ("parse", "pre_mean", "{a = 1}", "expected a number for each channel"),
        ("parse", "pre_mean", "9" * 4000, "expected a number for each channel"),
        ("parse", "channel_swap", "1.5", "expected an order of channels"),
        ("quantize", "forward_list", "[1]", "expected a text"),
        ("quantize", "forward_mode", "nan", "expected a text"),
        ("run", "raw", "[1]", "expected a text"),
        ("run", "input", "0", "expected a text"),
    ],
)
def test_values_that_mean_nothing_are_refused(
    section: str, key: str, value: str, said: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write().read_text()
    begin = text.index(f"[{section}]")
    lines = [line for line in text[begin:].splitlines() if not line.startswith(f"{key} = ")]
    Path("odd.toml").write_text("\n".join([text[:begin], lines[0], f"{key} = {value}", *lines[1:]]))
    assert main(["icraft", section, "odd.toml"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"triune: error: odd.toml: [{section}] {key}: ")
    assert said in told
    assert len(told) < 2000


def test_values_for_several_inputs(write: Write) -> None:
    from triune.cli.icraft.configuration import Configuration

    several = {
        "inputs": "[[1, 8, 8, 1], [1, 4]]",
        "inputs_layout": '["NHWC", "NC"]',
        "pre_method": '["resize", "nop"]',
        "pre_scale": "[[255.0, 128], [1]]",
        "pre_mean": '"nop"',
        "channel_swap": '[[2, 1, 0], "nop"]',
    }
    pixels = Configuration.read(write(**several), "parse").pixels
    assert (pixels.std, pixels.mean, pixels.color) == ((255.0, 128.0), 0.0, "rgb")


def test_texts_on_the_command_line_may_be_numbers(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["icraft", "parse", str(write()), "--net_name", "2024"]) == 0
    assert Path("json&raw/2024_parsed.json").is_file()
    for wrong in ("a = " + "9" * 5000, "a = " + "[" * 100_000):
        Path("odd.toml").write_text(wrong)
        capsys.readouterr()
        assert main(["icraft", "parse", "odd.toml"]) == 1
        assert capsys.readouterr().err.startswith("triune: error: odd.toml: no TOML: ")
