"""Programs written for the vendor's package, run as they are; and the import names that make it possible."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import triune
from triune.models import DIGITS_INT8, digits_held_out

PROGRAMS = Path(__file__).parent / "programs"
FRAMES = 21


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the digits network for batches of 1 and 2, and some scans."""
    folder = tmp_path_factory.mktemp("clients")
    for batch in (1, 2):
        triune.compile(DIGITS_INT8, target="metis", output=folder / str(batch), batch=batch)
    np.save(folder / "images.npy", digits_held_out()[0][:FRAMES])
    return folder


@pytest.fixture(scope="module")
def expected() -> list[int]:
    """Return what the network says of the scans, computed in the CPU session."""
    images = digits_held_out()[0][:FRAMES]
    (logits,) = triune.Session(DIGITS_INT8).run({"image": np.ascontiguousarray(images.transpose(0, 3, 1, 2))})
    answers: list[int] = logits.argmax(1).tolist()
    assert answers.count(answers[0]) < FRAMES
    return answers


def run(folder: Path, *arguments: object, path: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TRIUNE_RUNTIME_DIR": str(folder / "run")}
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


COMPAT = ("-m", "triune", "compat", "run")


@pytest.mark.parametrize("double", [[], ["--double-buffer"]])
@pytest.mark.parametrize("batch", ["1", "2"])
@pytest.mark.parametrize("cores", ["2", "4"])
def test_classify(folder: Path, expected: list[int], batch: str, cores: str, double: list[str]) -> None:
    model = folder / batch / "model.json"
    images = folder / "images.npy"
    done = run(folder, *COMPAT, PROGRAMS / "classify.py", model, images, "--aipu-cores", cores, *double)
    assert done.stderr == ""
    assert list(map(int, done.stdout.split())) == expected


def test_dmabuf(folder: Path, expected: list[int]) -> None:
    done = run(folder, *COMPAT, PROGRAMS / "dmabuf.py", folder / "1" / "model.json", folder / "images.npy")
    assert done.stderr == ""
    assert list(map(int, done.stdout.split())) == expected


def test_objects_and_release(folder: Path, expected: list[int]) -> None:
    model = folder / "1" / "model.json"
    done = run(folder, *COMPAT, PROGRAMS / "objects_and_release.py", model, folder / "images.npy")
    assert done.stderr == ""
    assert done.stdout == f"{expected[0]}\n"


def test_icraft_on_the_host(tmp_path: Path) -> None:
    from triune.icraft import xir

    network = xir.Network("tiny", xir.Framework.ONNX, "1.0")
    given = xir.Input(xir.TensorType(xir.FloatType.FP32(), [1, 8, 8, 3], xir.Layout("NHWC")))
    weights = np.random.default_rng(0).standard_normal((1, 1, 3, 4), np.float32)
    conv = xir.Conv2d(given[0], xir.Params(weights, "weights", xir.Layout("HWIO")), None, 1, 0, 1)
    for op in (given, conv, xir.Output(conv[0])):
        network.addOp(op)
    network.dumpJsonToFile(str(tmp_path / "tiny.json"))
    network.dumpParamsToFile(str(tmp_path / "tiny.raw"))
    image = np.random.default_rng(1).standard_normal((1, 8, 8, 3), np.float32)
    np.save(tmp_path / "image.npy", image)
    files = [tmp_path / name for name in ("tiny.json", "tiny.raw", "image.npy")]
    done = run(tmp_path, *COMPAT, PROGRAMS / "icraft_host.py", *files)
    assert done.stderr == ""
    assert done.stdout == f"{(image @ weights[0, 0]).argmax()}\n"


def test_an_icraft_device(tmp_path: Path) -> None:
    done = run(tmp_path, *COMPAT, PROGRAMS / "icraft_device.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "True 0 (4, 4) FMSHBYV1-20200903",
        "The MemPtr is of ADDR type",
    ]


def test_a_script_of_a_model_zoo(tmp_path: Path) -> None:
    from triune.icraft import host_backend, xir, xrt

    triune.compile(DIGITS_INT8, target="buyi", output=tmp_path, format="icraft")
    (path,) = tmp_path.glob("*_BY.json")
    out = tmp_path / "0.ftmp"
    done = run(
        tmp_path,
        *COMPAT,
        PROGRAMS / "icraft_zoo.py",
        path,
        path.with_suffix(".raw"),
        "axi://ql100aiu?npu=0x40000000",
        out,
    )
    assert done.stderr == ""
    assert done.stdout == "{8} set() False 4 True 10 True\n"
    (path,) = tmp_path.glob("*_adapted.json")
    network = xir.Network.CreateFromJsonFile(path)
    network.loadParamsFromFile(path.with_suffix(".raw"))
    session = xrt.Session.Create([host_backend.HostBackend], network.view(0), [xrt.HostDevice.Default()])
    session.apply()
    image = (np.arange(64).reshape(1, 8, 8, 1) % 17 / 16).astype(np.float32)
    (wanted,) = session.forward([xrt.Tensor(image, xir.Layout("NHWC"))])
    np.testing.assert_array_equal(np.fromfile(out, np.float32), np.asarray(wanted).ravel())


def test_a_program_finds_its_neighbours_and_arguments(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("from axelera.runtime import Context\n")
    program = tmp_path / "program.py"
    program.write_text("import neighbour, sys; print(__name__, sys.argv[1:]); sys.exit(3)\n")
    done = run(tmp_path, *COMPAT, program, "--flag", "-m", "x")
    assert (done.returncode, done.stdout) == (3, "__main__ ['--flag', '-m', 'x']\n")


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import sys, axelera.runtime; print(__name__, sys.argv[1:])\n")
    command = [sys.executable, *COMPAT, "-m", "module", "x"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "__main__ ['x']\n"


def test_child_processes_have_the_name_too(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess, sys\ncode = 'import axelera.runtime as a; print(a.__name__)'\n"
        "subprocess.check_call([sys.executable, '-c', code])\n"
    )
    assert run(tmp_path, *COMPAT, program).stdout == "triune.axelera.runtime\n"


def test_a_programs_failure_is_shown_as_its_own(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("def fail():\n    raise KeyError('mine')\n\n\nfail()\n")
    done = run(tmp_path, *COMPAT, program)
    assert done.returncode == 1
    assert done.stderr.startswith(f'Traceback (most recent call last):\n  File "{program}", line 5')
    assert done.stderr.endswith("KeyError: 'mine'\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "no_such_module"], "No module named no_such_module"),
        (["-m", "no_such.module"], "No module named 'no_such'"),
        (["."], "can't find '__main__' module in '.'"),
    ],
)
def test_what_cannot_begin_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, *COMPAT, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("triune: error: ")
    assert done.stderr.count("\n") == 1
    assert message in done.stderr


def test_import_installs_the_very_same_modules(tmp_path: Path) -> None:
    code = (
        "import triune.compat.axelera, axelera.runtime, axelera.runtime.objects, axelera.runtime.axruntime\n"
        "import triune.axelera.runtime as ours\n"
        "import triune.compat.axelera\n"
        "from axelera.runtime import Context, objects as o\n"
        "import sys, importlib\n"
        "assert axelera.runtime is ours and Context is ours.Context\n"
        "assert o is ours.objects is axelera.runtime.objects is importlib.import_module('axelera.runtime.objects')\n"
        "assert axelera.runtime.axruntime is ours.axruntime\n"
        "assert axelera.__file__ is None, 'a namespace'\n"
    )
    assert run(tmp_path, "-c", code).stderr == ""


def test_nothing_is_importable_unasked(tmp_path: Path) -> None:
    code = "import triune, triune.axelera.runtime, triune.compat\nimport axelera"
    assert "No module named 'axelera'" in run(tmp_path, "-c", code).stderr


def test_the_vendors_siblings_stay_importable(tmp_path: Path) -> None:
    sibling = tmp_path / "site" / "axelera" / "app"
    sibling.mkdir(parents=True)
    (sibling / "__init__.py").write_text("word = 'real'\n")
    code = (
        "import triune.compat.axelera, axelera.runtime, axelera.app, sys\n"
        "print(axelera.app.word, axelera.runtime.__name__)\n"
        "sys.path.append(sys.argv[1])\n"
        "import axelera.later"
    )
    later = tmp_path / "later" / "axelera"
    later.mkdir(parents=True)
    (later / "later.py").write_text("print('later')\n")
    done = run(tmp_path, "-c", code, tmp_path / "later", path=str(tmp_path / "site"))
    assert (done.stdout, done.stderr) == ("real triune.axelera.runtime\nlater\n", "")


@pytest.fixture
def real(tmp_path: Path) -> str:
    """Return a path with something that is not ours under the vendor's name."""
    folder = tmp_path / "site" / "axelera" / "runtime"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("real = True\n")
    return str(tmp_path / "site")


def test_an_installed_vendor_package_is_not_replaced_silently(tmp_path: Path, real: str) -> None:
    done = run(tmp_path, "-c", "import triune.compat.axelera", path=real)
    assert "ImportError: axelera.runtime of the vendor is installed" in done.stderr
    assert "force=True" in done.stderr
    program = tmp_path / "program.py"
    program.write_text("import axelera.runtime\nprint(axelera.runtime.__name__)\n")
    done = run(tmp_path, *COMPAT, program, path=real)
    assert done.returncode == 1
    assert done.stderr.startswith("triune: error: axelera.runtime of the vendor is installed")


def test_an_installed_vendor_package_is_replaced_on_request(tmp_path: Path, real: str) -> None:
    program = tmp_path / "program.py"
    program.write_text("import axelera.runtime\nprint(axelera.runtime.__name__)\n")
    assert run(tmp_path, *COMPAT, "--force", program, path=real).stdout == "triune.axelera.runtime\n"
    code = (
        "import axelera.runtime as before\nassert before.real\n"
        "import triune.compat\ntriune.compat.install('axelera', 'axelera.runtime', force=True)\n"
        "import importlib\nprint(importlib.import_module('axelera.runtime').__name__)"
    )
    assert run(tmp_path, "-c", code, path=real).stdout == "triune.axelera.runtime\n"


# ---- MegEngine Lite


def test_lite(folder: Path, expected: list[int]) -> None:
    images = digits_held_out()[0][:1]
    np.save(folder / "image.npy", np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    done = run(folder, *COMPAT, PROGRAMS / "lite.py", DIGITS_INT8, folder / "image.npy")
    assert (done.stdout, done.stderr) == (f"{expected[0]}\n", "")


def test_lite_is_the_very_same_module(tmp_path: Path) -> None:
    code = (
        "import triune.compat.megenginelite, megenginelite, megenginelite.network, megenginelite.struct\n"
        "import triune.megenginelite as ours, importlib\n"
        "assert megenginelite is ours and megenginelite.network is ours.network\n"
        "assert importlib.import_module('megenginelite.global_setting').LiteGlobal is ours.LiteGlobal\n"
        "from megenginelite import *\n"
        "assert LiteNetwork is ours.LiteNetwork and version == ours.__version__\n"
    )
    assert run(tmp_path, "-c", code).stderr == ""
    assert "No module named 'megenginelite'" in run(tmp_path, "-c", "import triune.compat, megenginelite").stderr


# ---- Icraft


def test_both_import_forms_of_icraft(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import xir\n"
        "from xrt import *\n"
        "from host_backend import *\n"
        "from icraft.xir import *\n"
        "import icraft.xrt, icraft.host_backend, icraft.xir\n"
        "import triune.icraft.xir as ours\n"
        "assert xir is icraft.xir is ours\n"
        "assert icraft.xrt.Session is Session and icraft.host_backend.HostBackend is HostBackend\n"
        "print(xir.Network('n', PYTORCH, '1.9').name, Tensor(xir.TensorType(FloatType.FP32(), [2], Layout('C'))).dtype().shape)\n"
    )
    done = run(tmp_path, *COMPAT, program)
    assert (done.stdout, done.stderr) == ("n [2]\n", "")
    code = "import triune.compat.icraft, icraft.xir, xir\nassert xir is icraft.xir"
    assert run(tmp_path, "-c", code).stderr == ""
    for name in ("icraft", "xir", "xrt"):
        assert f"No module named '{name}'" in run(tmp_path, "-c", f"import triune.compat, triune.icraft, {name}").stderr


def test_a_network_is_looked_at_by_an_unchanged_program(tmp_path: Path) -> None:
    from triune.icraft.xir import FloatType, Framework, Input, Layout, Network, Output, TensorType

    network = Network("tiny", Framework.ONNX, "1")
    network.addOp(Input(TensorType(FloatType.FP32(), [1, 4, 4, 3], Layout.NHWC())))
    network.addOp(Output(network.ops[0][0]))
    network.setTag("speedmode", False)
    network.dumpJsonToFile(str(tmp_path / "tiny.json"))
    network.dumpParamsToFile(str(tmp_path / "tiny.raw"))
    done = run(tmp_path, *COMPAT, PROGRAMS / "xir_info.py", tmp_path / "tiny.json", tmp_path / "tiny.raw")
    assert (done.stdout, done.stderr) == (
        'icraft::xir::Input "@hostt" [1, 4, 4, 3] "@fp(32)"\nicraft::xir::Output "@hostt"\nspeed mode False\n',
        "",
    )


@pytest.mark.parametrize("name", ["icraft.xir", "xir"])
def test_an_installed_module_of_icrafts_names_is_not_replaced_silently(tmp_path: Path, name: str) -> None:
    package = tmp_path / "site" / name.replace(".", "/")
    package.parent.mkdir(parents=True)
    package.with_suffix(".py").write_text("real = True\n")
    if "." in name:
        (package.parent / "__init__.py").write_text("")
        (package.parent / "codegen.py").write_text("word = 'real'\n")
    site = str(tmp_path / "site")
    done = run(tmp_path, "-c", "import triune.compat.icraft", path=site)
    assert f"ImportError: {name} of the vendor is installed" in done.stderr
    code = (
        f"import {name}\nassert {name}.real\n"
        "import triune.compat\ntriune.compat.install('icraft', triune.compat.ICRAFT, force=True)\n"
        "import icraft.xir, xir\nprint(icraft.xir.__name__, xir.__name__)\n"
    )
    code += "import icraft.codegen; print(icraft.codegen.word)" if "." in name else "print('real')"
    done = run(tmp_path, "-c", code, path=site)
    assert (done.stdout, done.stderr) == ("triune.icraft.xir triune.icraft.xir\nreal\n", "")


def test_programs_find_the_version_of_the_distribution(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import importlib.metadata\n"
        "import re\n"
        "import axelera.runtime\n"
        "found = importlib.metadata.version('axelera-runtime')\n"
        "assert found == axelera.runtime.__version__\n"
        "print(re.match(r'^\\d+\\.\\d+\\.\\d+$', found) is not None)\n"
    )
    done = run(tmp_path, *COMPAT, tmp_path / "program.py")
    assert (done.stdout, done.stderr) == ("True\n", "")
    # Without the vendor's names there is no such distribution.
    ask = "import importlib.metadata as found; found.version('axelera-runtime')"
    assert "PackageNotFoundError" in run(tmp_path, "-c", ask).stderr


def test_an_installed_distribution_wins(tmp_path: Path) -> None:
    installed = tmp_path / "axelera_runtime-9.9.9.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: axelera-runtime\nVersion: 9.9.9\n")
    (tmp_path / "program.py").write_text("import importlib.metadata as m\nprint(m.version('axelera-runtime'))\n")
    assert run(tmp_path, *COMPAT, tmp_path / "program.py", path=str(tmp_path)).stdout == "9.9.9\n"
