"""What the C interface writes of a network is what Python's writes, byte by byte or name by name."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import pytest

from triune.megenginelite import LiteNetwork

ROOT = Path(__file__).parents[2]


def library() -> ctypes.CDLL:
    """Return the library of the C interface, where one was built."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for path in (target / profile / "libtriune_capi.so" for profile in ("release", "debug", "debug/deps")):
        if path.exists():
            return ctypes.CDLL(str(path))
    pytest.skip("no libtriune_capi.so: cargo build --package triune-capi")


class Network:
    """A network of the C interface, with a model."""

    def __init__(self, path: Path) -> None:
        self.library = library()
        self.library.LITE_get_last_error.restype = ctypes.c_char_p
        self.handle = ctypes.c_void_p()
        self.call("LITE_make_default_network", ctypes.byref(self.handle))
        self.call("LITE_load_model_from_path", self.handle, os.fsencode(path))

    def call(self, name: str, *arguments: Any) -> None:
        assert getattr(self.library, name)(*arguments) == 0, self.library.LITE_get_last_error()

    def set(self, name: bytes, array: Any) -> None:
        tensor, memory = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("LITE_get_io_tensor", self.handle, name, 1, ctypes.byref(tensor))
        self.call("LITE_get_tensor_memory", tensor, ctypes.byref(memory))
        ctypes.memmove(memory, array.ctypes.data, array.nbytes)


def drawing(content: Any) -> Any:
    """Return operators with what they read, by names: numbers are each interface's own."""
    variables = content["var"]
    return sorted(
        (
            operator["name"],
            operator["type"],
            [variables[number]["name"] for number in operator["input"]],
            [(variables[number]["name"], variables[number]["mem_plan"]["layout"]) for number in operator["output"]],
        )
        for operator in content["operator"].values()
    )


def named(content: Any, which: str) -> Any:
    """Return what a profile says of operators, by their names."""
    operators = content["graph_exec"]["operator"]
    return {operators[number]["name"]: said for number, said in content["profiler"][which].items()}


def test_files_are_those_of_python(classifier: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "c", tmp_path / "python"]
    for folder in folders:
        (folder / "bin").mkdir(parents=True)
    data = np.ascontiguousarray(models.image())
    bare = Network(classifier)
    bare.set(b"data", data)
    paths = [os.fsencode(folders[0] / name) for name in ("io.txt", "bin", "profile.json", "plan")]
    bare.call("LITE_enable_io_txt_dump", bare.handle, paths[0])
    bare.call("LITE_enable_io_bin_dump", bare.handle, paths[1])
    bare.call("LITE_enable_profile_performance", bare.handle, paths[2])
    bare.call("LITE_forward", bare.handle)
    bare.call("LITE_wait", bare.handle)
    bare.call("LITE_get_static_memory_alloc_info", bare.handle, paths[3])
    bare.call("LITE_destroy_network", bare.handle)

    network = LiteNetwork()
    network.load(classifier)
    network.get_io_tensor("data").set_data_by_copy(data)
    network.io_txt_dump(folders[1] / "io.txt")
    network.io_bin_dump(folders[1] / "bin")
    network.enable_profile_performance(folders[1] / "profile.json")
    network.forward()
    network.wait()
    network.get_static_memory_alloc_info(folders[1] / "plan")

    c, python = ({path.name: path.read_bytes() for path in (folder / "bin").iterdir()} for folder in folders)
    assert c == python
    assert len(python) > 4
    c, python = ((folder / "io.txt").read_text() for folder in folders)
    assert c == python
    for name in ("memory.json", "StaticMemoryInfo.json"):
        c, python = (json.loads((folder / "plan" / name).read_text()) for folder in folders)
        assert c == python, name
    assert (folders[0] / "plan" / "memory.svg").read_text() == (folders[1] / "plan" / "memory.svg").read_text()
    c, python = (drawing(json.loads((folder / "plan" / "graph.json").read_text())) for folder in folders)
    assert c == python
    c, python = (json.loads((folder / "profile.json").read_text()) for folder in folders)
    assert drawing(c["graph_exec"]) == drawing(python["graph_exec"])
    assert named(c, "opr_footprint") == named(python, "opr_footprint")
    assert named(c, "device").keys() == named(python, "device").keys() == named(c, "host").keys()
