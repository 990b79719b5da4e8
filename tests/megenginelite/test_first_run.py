"""What a network has done before its first run: everything but computing, and nothing that a program could tell by values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import lite_models as models
import numpy as np
import pytest

from triune.megenginelite import LiteConfig, LiteIO, LiteLayout, LiteNetwork, LiteNetworkIO


def load(path: Path, config: LiteConfig | None = None, ios: LiteNetworkIO | None = None) -> LiteNetwork:
    network = LiteNetwork(config, ios)
    network.load(path)
    return network


def test_nothing_to_see_before_the_first_run(classifier: Path) -> None:
    """A trial run leaves no results behind."""
    network = load(classifier)
    assert not network.get_io_tensor("data").to_numpy().any()
    assert not network.get_io_tensor("prob").to_numpy().any()


def test_the_first_run_takes_data_however_it_comes(classifier: Path) -> None:
    image = models.image()
    expected = models.expected(classifier, data=image)[0]
    for set_data in ("copy", "share", "share_output"):
        network = load(classifier)
        data, prob = network.get_io_tensor("data"), network.get_io_tensor("prob")
        if set_data == "copy":
            data.set_data_by_copy(image)
        else:
            data.set_data_by_share(image)
        if set_data == "share_output":
            prob.set_data_by_share(np.full((1, 10), 7, "float32"))
        network.forward()
        network.wait()
        assert np.array_equal(prob.to_numpy(), expected), set_data


def test_inputs_at_any_address_give_the_same_bits(classifier: Path) -> None:
    image = models.image()
    expected = models.expected(classifier, data=image)[0]
    network = load(classifier)
    memory = np.zeros(image.nbytes + 64, "uint8")
    start = -memory.ctypes.data % 64
    for offset in (0, 4, 8, 16, 1):
        shared = memory[start + offset :][: image.nbytes].view("float32").reshape(image.shape)
        shared[...] = image
        network.get_io_tensor("data").set_data_by_share(shared)
        network.get_io_tensor("prob").fill_zero()
        network.forward()
        assert np.array_equal(network.get_io_tensor("prob").to_numpy(), expected), offset
        # Read at every run, not once.
        shared[...] = 0
        network.forward()
        assert not np.array_equal(network.get_io_tensor("prob").to_numpy(), expected), offset


def test_callbacks_of_the_first_run(adder: Path) -> None:
    """Those that were set before the model was loaded count, and the trial run is none of theirs."""
    seen: list[str] = []
    network = LiteNetwork()
    network.set_start_callback(lambda ios: seen.append("start"))
    network.set_finish_callback(lambda ios: seen.append("finish"))
    network.load(adder)
    assert seen == []
    network.forward()
    network.wait()
    assert seen == ["start", "finish"]


def test_a_finish_callback_between_the_first_run_and_its_wait(adder: Path) -> None:
    seen: list[str] = []
    network = load(adder)
    network.forward()
    network.set_finish_callback(lambda ios: seen.append("finish"))
    network.wait()
    network.wait()
    assert seen == ["finish"]


def test_shapes_that_the_program_asks_for(flexible: Path) -> None:
    ios = LiteNetworkIO([LiteIO("data", layout=LiteLayout([2, 3, 20, 20], "float32"))])
    network = load(flexible, None, ios)
    images = models.image(2, 20)
    network.get_io_tensor("data").set_data_by_copy(images)
    network.forward()
    assert np.array_equal(network.get_io_tensor("prob").to_numpy(), models.expected(flexible, data=images)[0])


def test_const_shape_counts_the_first_run(flexible: Path) -> None:
    config = LiteConfig()
    config.options.const_shape = 1
    ios = LiteNetworkIO([LiteIO("data", layout=LiteLayout([1, 3, 16, 16], "float32"))])
    network = load(flexible, config, ios)
    network.get_io_tensor("data").set_data_by_copy(models.image())
    network.forward()
    network.get_io_tensor("data").set_data_by_copy(models.image(1, 20))
    with pytest.raises(RuntimeError, match="const_shape"):
        network.forward()


def test_loading_does_not_load_numpy(classifier: Path) -> None:
    """It takes longer than a small model does."""
    code = (
        "import sys; from triune.megenginelite import LiteNetwork; network = LiteNetwork(); network.load(sys.argv[1]); "
        "assert 'numpy' not in sys.modules; network.forward(); print(network.get_io_tensor('prob').to_numpy().sum())"
    )
    done = subprocess.run([sys.executable, "-c", code, classifier], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(1.0)


def test_optimized_dumps_fuse_as_others(test_data: Path) -> None:
    """An optimized dump adds biases behind residuals; the operators that run are the same all the same."""
    folder = test_data / "models" / "mge"
    if not folder.is_dir():
        pytest.skip(f"no test data: there is no folder {folder}")
    from triune import _native

    def kinds(name: str) -> list[str]:
        plan = _native.Session(folder / f"{name}.mge").memory_plan()
        return sorted(kind for _, kind, *_ in plan["operators"])

    for name in ("resnet18_w16_64", "yoloxish"):
        assert kinds(f"{name}_opt") == kinds(name)
    assert "Add" not in kinds("resnet18_w16_64_opt")
