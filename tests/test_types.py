"""What type checkers say of programs: misspelled names are errors, and right programs have none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WRONG = {
    "import triune\ntriune.Sesion": 'Module has no attribute "Sesion"',
    "from triune import sesion": 'has no attribute "sesion"',
    "from triune import Session\nSession('m.onnx').threads_": '"Session" has no attribute "threads_"',
    "from triune import Session\nSession('m.onnx').run({}, 3)": "No overload variant",
    "from triune import Session\nSession(3)": 'Argument 1 to "Session" has incompatible type "int"',
    "from triune.megenginelite import LiteConfig\nLiteConfig().thread": '"LiteConfig" has no attribute "thread"',
    "from triune.megenginelite import LiteConfig\nLiteConfig().thread = 3": '"LiteConfig" has no attribute "thread"',
    "from triune.megenginelite import LiteLayout\nLiteLayout().shpe": '"LiteLayout" has no attribute "shpe"',
    "from triune.icraft import xir\nxir.Network().nam": '"Network" has no attribute "nam"',
    "from triune.batch import predict\npredict('m.onnx', 'x', on_error='ignore')": 'Argument "on_error" to "predict"',
    "from triune.batch import Preprocess\nPreprocess(crop=0.5)": 'Unexpected keyword argument "crop"',
}

RIGHT = """
import io
import numpy as np
import triune
from triune.batch import Preprocess, Top, predict
from triune.icraft import xir
from triune.icraft.host_backend import HostBackend
from triune.icraft.xrt import Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import ZG330Backend
from triune.megenginelite import LiteConfig, LiteLayout
from triune.models import DIGITS_INT8


async def runs(session: triune.Session, image: np.ndarray) -> float:
    with session.clone(threads=2) as other:
        (logits,) = other.run(None, {"image": image}, out=[None])
        (later,) = await other.run_async(["logits"], {"image": image}, convert=True)
    opset: int | None = session.metadata.opset
    shapes: dict[str, tuple[int, ...] | None] = session.prepare({"image": (1, 1, 8, 8)})
    return float(session.profile({"image": image.tolist()}).seconds)


def batches() -> list[tuple[Top, ...]]:
    triune.Session(io.BytesIO(DIGITS_INT8.read_bytes()))
    return [each.top for each in predict(DIGITS_INT8, "photographs", preprocess=Preprocess.imagenet(), top_k=5)]


def icraft(image: np.ndarray) -> None:
    triune.compile(DIGITS_INT8, target="zg330", format="icraft", output="networks")
    network = xir.Network.CreateFromJsonFile("networks/digits_int8_ZG.json")
    network.loadParamsFromFile("networks/digits_int8_ZG.raw")
    board = Device.Open("axi://zg330aiu")
    session = Session.Create([ZG330Backend, HostBackend], network, [board, HostDevice.Default()])
    session.enableTimeProfile(True)
    session.apply()
    (logits,) = session.forward([Tensor(image, xir.Layout("NHWC"))])
    print(np.array(logits).argmax(), session.timeProfileResults())


config = LiteConfig()
config.device_id = config.options.jit_level
print(config.bare_model_cryption_name, LiteLayout([1, 2]).ndim)
"""


@pytest.fixture(scope="module")
def told(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what mypy says of each program, all in one go."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = tmp_path_factory.mktemp("programs")
    programs = {f"program_{index}.py": text for index, text in enumerate([RIGHT, *WRONG])}
    for name, text in programs.items():
        (folder / name).write_text(text)
    options = ["--strict", "--python-version", "3.11", "--cache-dir", str(folder / "cache"), "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, "--disable-error-code", "type-arg", *programs]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={"MYPYPATH": str(root / "python"), "PATH": ""}
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    strange = [line for line in lines if not line.startswith("program_")]
    assert strange == []
    return {text: "\n".join(line for line in lines if line.startswith(f"{name}:")) for name, text in programs.items()}


def test_right_programs_are_right(told: dict[str, str]) -> None:
    assert told[RIGHT] == ""


@pytest.mark.parametrize("program", WRONG)
def test_wrong_programs_are_wrong(told: dict[str, str], program: str) -> None:
    assert WRONG[program] in told[program]
