"""What type checkers say of programs: misspelled names are errors, and right programs have none."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

# Wrong programs, with what mypy says of each, and the rule of pyright's that it breaks.
WRONG = {
    "import triune\ntriune.Sesion": ('Module has no attribute "Sesion"', "reportAttributeAccessIssue"),
    "from triune import sesion": ('has no attribute "sesion"', "reportAttributeAccessIssue"),
    "from triune import Session\nSession('m.onnx').threads_": (
        '"Session" has no attribute "threads_"',
        "reportAttributeAccessIssue",
    ),
    "from triune import Session\nSession('m.onnx').run({}, 3)": ("No overload variant", "reportArgumentType"),
    "from triune import Session\nSession(3)": (
        'Argument 1 to "Session" has incompatible type "int"',
        "reportArgumentType",
    ),
    "from triune.megenginelite import LiteConfig\nLiteConfig().thread": (
        '"LiteConfig" has no attribute "thread"',
        "reportAttributeAccessIssue",
    ),
    "from triune.megenginelite import LiteConfig\nLiteConfig().thread = 3": (
        '"LiteConfig" has no attribute "thread"',
        "reportAttributeAccessIssue",
    ),
    "from triune.megenginelite import LiteLayout\nLiteLayout().shpe": (
        '"LiteLayout" has no attribute "shpe"',
        "reportAttributeAccessIssue",
    ),
    "from triune.icraft import xir\nxir.Network().nam": (
        '"Network" has no attribute "nam"',
        "reportAttributeAccessIssue",
    ),
    "from triune.batch import predict\npredict('m.onnx', 'x', on_error='ignore')": (
        'Argument "on_error" to "predict"',
        "reportArgumentType",
    ),
    "from triune.batch import Preprocess\nPreprocess(crop=0.5)": (
        'Unexpected keyword argument "crop"',
        "reportCallIssue",
    ),
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


def first_page(root: Path) -> str:
    """Return the Python of README.md as one program."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def programs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the file that each program is in."""
    folder = tmp_path_factory.mktemp("programs")
    files = {}
    for index, text in enumerate([first_page(root), RIGHT, *WRONG]):
        files[text] = folder / f"program_{index}.py"
        files[text].write_text(text)
    return files


@pytest.fixture(scope="module")
def told(root: Path, programs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return what mypy says of each program, all in one go."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    folder = programs[RIGHT].parent
    cache = tmp_path_factory.mktemp("mypy")
    options = ["--strict", "--python-version", "3.11", "--cache-dir", str(cache), "--no-error-summary"]
    # As of an installed package: what is wrong in Triune is for the project's own run of mypy.
    options += ["--follow-imports", "silent"]
    command = [sys.executable, "-m", "mypy", *options, "--disable-error-code", "type-arg"]
    done = subprocess.run(
        [*command, *(file.name for file in programs.values())],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"MYPYPATH": str(root / "python"), "PATH": ""},
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    strange = [line for line in lines if not line.startswith("program_")]
    assert strange == []
    return {
        text: "\n".join(line for line in lines if line.startswith(f"{file.name}:")) for text, file in programs.items()
    }


@pytest.fixture(scope="module")
def pyright(root: Path, programs: dict[str, Path]) -> dict[str, list[str]]:
    """Return the rules of pyright that each program breaks, all in one go."""
    checker = next((name for name in ("basedpyright", "pyright") if importlib.util.find_spec(name)), None)
    if checker is None:
        pytest.skip("basedpyright is not installed")
    folder = programs[RIGHT].parent
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(root / "python")]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", checker, "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    strange = [each for each in found if Path(each["file"]) not in programs.values()]
    assert strange == []
    return {text: [each["rule"] for each in found if Path(each["file"]) == file] for text, file in programs.items()}


def test_right_programs_are_right(told: dict[str, str], root: Path) -> None:
    assert told[RIGHT] == ""
    assert told[first_page(root)] == ""


@pytest.mark.parametrize("program", WRONG)
def test_wrong_programs_are_wrong(told: dict[str, str], program: str) -> None:
    assert WRONG[program][0] in told[program]


def test_pyright_says_the_same(pyright: dict[str, list[str]], root: Path) -> None:
    assert pyright[RIGHT] == []
    assert pyright[first_page(root)] == []
    missed = {text: pyright[text] for text, (_, rule) in WRONG.items() if rule not in pyright[text]}
    assert missed == {}
