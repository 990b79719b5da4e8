"""What type checkers say of programs: misspelled names are errors, and right programs have none.

Each checker reads all programs in one go, since most of its time goes into what they import.
"""

from __future__ import annotations

import importlib.util
import json
import os
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

# Programs that import what a vendor's do, with what mypy says that values are; each ends with an error of types.
VENDORS = {
    "from axelera.runtime import Context, objects\nimport axelera.runtime.axruntime\n"
    "reveal_type(objects.Context().list_devices()[0].name)\nnumber: int = Context().load_model('x')\n": ["str"],
    "from megenginelite import *\nfrom megenginelite.tensor import LiteLayout as L\n"
    "reveal_type(LiteNetwork().get_input_name(0))\nnumber: int = LiteTensor(L([1])).to_numpy()\n": ["str"],
    "import xir\nfrom icraft.xrt import *\nfrom icraft.xir import *\n"
    "reveal_type(xir.Network.CreateFromJsonFile('x').view(0).ops[0].op_id)\nnumber: int = Layout('C')\n": ["int"],
    "from triune.icraft.xir import *\n"
    "t = TensorType(FloatType.FP32(), [1, 8, 8, 3], Layout.NHWC())\n"
    "given = Input(t)\n"
    "conv = Conv2d(given[0], Params(t), None, 1, 1, 1, padding_mode=REFLECT)\n"
    "reveal_type(Conv2d(Operation.Create('x')).stride_width)\n"
    "reveal_type(Relu(conv[0]).clone())\n"
    "conv.stride_width = 'x'\n": ["int", "ReLU"],
}
# The directories that the documentation gives to type checkers.
STUBS = ("axelera", "megenginelite", "icraft")


def paths(root: Path) -> list[str]:
    """Return where modules lie: Triune, and the vendors' names of it."""
    python = root / "python"
    return [str(python), *(str(python / "triune" / "compat" / "paths" / name) for name in STUBS)]


def first_page(root: Path) -> str:
    """Return the Python of README.md as one program."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def programs(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the file that each program is in."""
    folder = tmp_path_factory.mktemp("programs")
    files = {}
    for index, text in enumerate([first_page(root), RIGHT, *WRONG, *VENDORS]):
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
        env={"MYPYPATH": os.pathsep.join(paths(root)), "PATH": ""},
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
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": paths(root)}
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


@pytest.mark.parametrize("program", VENDORS)
def test_vendors_names_have_types(told: dict[str, str], program: str) -> None:
    assert re.findall(r'note: Revealed type is "(?:\w+\.)*(\w+)"', told[program]) == VENDORS[program]
    errors = [line for line in told[program].splitlines() if ": error: " in line]
    assert len(errors) == 1
    assert errors[0].endswith("[assignment]")


def test_pyright_says_the_same(pyright: dict[str, list[str]], root: Path) -> None:
    assert pyright[RIGHT] == []
    assert pyright[first_page(root)] == []
    missed = {text: pyright[text] for text, (_, rule) in WRONG.items() if rule not in pyright[text]}
    assert missed == {}
    assert [pyright[text] for text in VENDORS] == 3 * [["reportAssignmentType"]] + [["reportAttributeAccessIssue"]]
