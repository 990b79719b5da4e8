"""Dumps, profiles and the memory plan: what tools that read the vendor's files find."""

from __future__ import annotations

import json
import re
import struct
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import lite_models as models
import numpy as np
import numpy.typing as npt
import pytest

from triune.megenginelite import LiteNetwork


@pytest.fixture
def network(classifier: Path) -> LiteNetwork:
    """Return the classifier with an image as its input."""
    network = LiteNetwork()
    network.load(classifier)
    network.get_io_tensor("data").set_data_by_copy(models.image())
    return network


def run(network: LiteNetwork) -> npt.NDArray[Any]:
    network.forward()
    network.wait()
    return network.get_io_tensor("prob").to_numpy()


BLOCK = re.compile(
    r"var(?P<var>\d+) produced: name=(?P<name>\S+) layout=\{(?P<layout>[^}]+)\} "
    r"owner_opr=(?P<owner>\S+)\{(?P<kind>\w+)\} opr(?P<opr>\d+)\n"
    r" deps:\n(?P<deps>(?:  \[i\d+\]var.*\n)*)"
    r" val: \[(?P<values>[^]]*)\]min=(?P<min>\S+) max=(?P<max>\S+) mean=(?P<mean>\S+) l2=(?P<l2>\S+) sd=(?P<sd>\S+) s\n"
)


def test_text(network: LiteNetwork, tmp_path: Path) -> None:
    network.io_txt_dump(str(tmp_path / "io.txt"))
    prob = run(network)
    text = (tmp_path / "io.txt").read_text()
    blocks = list(BLOCK.finditer(text))
    assert BLOCK.sub("", text) == ""
    by_name = {block["name"]: block for block in blocks}
    data = network.get_io_tensor("data").to_numpy()
    assert by_name["data"]["layout"] == "1(768),3(256),16(16),16(1) Float32"
    assert by_name["data"]["kind"] == "Host2DeviceCopy"
    assert by_name["data"]["deps"] == ""
    assert by_name["data"]["values"] == ", ".join([f"{value:.4g}" for value in data.ravel()[:5]] + ["..."])
    last = blocks[-1]
    assert last["layout"] == "1(10),10(1) Float32"
    statistics = [float(last[name]) for name in ("min", "max", "mean", "l2", "sd")]
    wanted = [prob.min(), prob.max(), prob.mean(), np.sqrt((prob**2).mean()), prob.std(ddof=1)]
    assert statistics == pytest.approx(wanted, rel=0.01)
    assert {"conv", "relu", "pool", "logits"} <= set(by_name), "nothing is fused"
    assert f"var{by_name['conv']['var']}: " in by_name["relu"]["deps"]
    assert len({block["var"] for block in blocks} | {block["opr"] for block in blocks}) == 2 * len(blocks)
    run(network)
    assert len(list(BLOCK.finditer((tmp_path / "io.txt").read_text()))) == 2 * len(blocks), "appended"
    with pytest.raises(RuntimeError, match="io_txt_dump"):
        network.io_txt_dump(tmp_path / "no" / "io.txt")


def read_record(path: Path) -> tuple[str, npt.NDArray[np.float32]]:
    """Read a file as MegEngine's `load_tensor_binary` does: three numbers, seven extents, name, elements."""
    content = path.read_bytes()
    length, dtype, most, *shape = struct.unpack_from("<3I7I", content)
    assert (dtype, most) == (0, 7)
    shape = [extent for extent in shape if extent]
    start = struct.calcsize("<3I7I")
    name = content[start : start + length].decode()
    return name, np.frombuffer(content[start + length :], np.float32).reshape(shape)


def test_binary(network: LiteNetwork, tmp_path: Path) -> None:
    network.io_bin_dump(str(tmp_path))
    prob = run(network)
    found = [read_record(path) for path in sorted(tmp_path.iterdir())]
    assert all(re.fullmatch(r"[0-9a-f]{6}", path.name) for path in tmp_path.iterdir())
    values = {re.search(r"var=(\S+)", name)[1]: value for name, value in found}  # type: ignore[index]
    assert np.array_equal(values["data"], network.get_io_tensor("data").to_numpy())
    assert np.allclose(values["prob"], prob, atol=1e-6)
    assert np.array_equal(values["relu"], np.maximum(values["conv"], 0))
    with pytest.raises(RuntimeError, match="no directory"):
        network.io_bin_dump(tmp_path / "no")


def test_binary_types(tmp_path: Path) -> None:
    """The numbers of element types are the library's, not those of model files; names are ASCII."""
    nodes: list[Any] = [
        ("Greater", ["x", "y"], ["größer"], {}),
        ("Cast", ["größer"], ["out"], {"to": models.TYPES["int32"]}),
    ]
    path = models.write(
        tmp_path / "net.onnx", nodes, [("x", "float32", [3]), ("y", "float32", [3])], [("out", "int32", [3])]
    )
    network = LiteNetwork()
    network.load(path)
    network.get_io_tensor("x").set_data_by_copy(np.array([1, 2, 3], np.float32))
    network.get_io_tensor("y").set_data_by_copy(np.array([2, 2, 2], np.float32))
    (tmp_path / "io").mkdir()
    network.io_bin_dump(tmp_path / "io")
    network.forward()
    records = [file.read_bytes() for file in sorted((tmp_path / "io").iterdir())]
    assert [struct.unpack_from("<I", record, 4)[0] for record in records] == [0, 0, 12, 4]
    length = struct.unpack_from("<I", records[2])[0]
    name = records[2][struct.calcsize("<3I7I") :][:length].decode("ascii")
    assert name == r"var=gr\xf6\xdfer owner_opr=Greater owner_opr_inputs=x,y"
    assert records[2].endswith(b"\0\0\1")


def check_graph(graph: dict[str, Any], inputs: set[str], outputs: set[str]) -> None:
    """Walk a network as the vendor's tools do: every operand is made by an operator, the results are at the end."""
    operators, variables = graph["operator"], graph["var"]
    makers = {result: number for number, operator in operators.items() for result in operator["output"]}
    assert set(makers) == set(variables)
    assert len({*operators, *variables}) == len(operators) + len(variables)
    assert {number for number in graph["comp_seq"] if operators[number]["type"] == "ImmutableTensor"} == set()
    seen: set[str] = set()
    for number in graph["comp_seq"]:
        for operand in operators[number]["input"]:
            maker = makers[operand]
            assert maker in seen or operators[maker]["type"] == "ImmutableTensor", "made before it is read"
        seen.add(number)
    read = {operand for operator in operators.values() for operand in operator["input"]}
    first = {operator["name"] for operator in operators.values() if operator["type"] == "Host2DeviceCopy"}
    assert first == inputs
    assert {variable["name"] for number, variable in variables.items() if number not in read} == outputs
    for number, variable in variables.items():
        assert variable["owner_opr"] == makers[number]
        chunk = graph["mem_chunk"][variable["mem_plan"]["mem_chunk_id"]]
        assert chunk["owner_var"] == number
        layout = variable["mem_plan"]["layout"]
        assert chunk["size"] == np.prod(layout["shape"], dtype=int) * np.dtype(layout["dtype"].lower()).itemsize


def test_profile(network: LiteNetwork, tmp_path: Path) -> None:
    file = tmp_path / "profile.json"
    network.enable_profile_performance(str(file))
    assert not file.exists()
    run(network)
    found = json.loads(file.read_text())
    assert set(found) == {"profiler", "graph_exec"}
    assert set(found["profiler"]) == {"opr_internal_pf", "host", "opr_footprint", "device"}
    assert set(found["graph_exec"]) == {"comp_seq", "mem_chunk", "var", "operator"}
    # What the vendor's profile_analyze does.
    operators, variables = found["graph_exec"]["operator"], found["graph_exec"]["var"]
    profiler = found["profiler"]
    end = 0.0
    assert list(profiler["device"]) == list(profiler["host"]) == list(profiler["opr_footprint"])
    for number in profiler["device"]:
        assert operators[number]["id"] == number
        for times in (*profiler["device"][number].values(), *profiler["host"][number].values()):
            assert end <= times["start"] < times["kern"] < times["end"] < 10
        end = times["end"]
        footprint = profiler["opr_footprint"][number]
        for end_of, shapes in (("input", "in_shapes"), ("output", "out_shapes")):
            layouts = [variables[variable]["mem_plan"]["layout"] for variable in operators[number][end_of]]
            assert [layout["shape"] for layout in layouts] == footprint[shapes]
    assert end > 0
    (conv,) = (number for number, operator in operators.items() if operator["type"] == "Conv")
    footprint = profiler["opr_footprint"][conv]
    assert footprint["computation"] == 2 * 8 * 8 * 8 * 27
    assert footprint["in_shapes"] == [[1, 3, 16, 16], [8, 3, 3, 3], [8]]
    assert footprint["out_shapes"] == [[1, 8, 8, 8]]
    assert footprint["memory"] == 4 * (3 * 16 * 16 + 8 * 27 + 8 + 8 * 8 * 8)
    check_graph(found["graph_exec"], {"data"}, {"prob"})
    file.unlink()
    run(network)
    assert file.exists(), "at every wait"
    network.enable_profile_performance(tmp_path / "no" / "profile.json")
    network.forward()
    with pytest.raises(RuntimeError, match="enable_profile_performance"):
        network.wait()


def test_memory(network: LiteNetwork, flexible: Path, tmp_path: Path) -> None:
    network.get_static_memory_alloc_info(str(tmp_path / "logs" / "test"))
    found = json.loads((tmp_path / "logs" / "test" / "memory.json").read_text())
    assert found["inputs"] == {"data": 4 * 3 * 16 * 16}
    assert found["outputs"] == {"prob": 40}
    assert found["weights"] >= 4 * (8 * 27 + 80)
    assert max(chunk["addr_end"] for chunk in found["chunks"]) <= found["peak_memory_size"]
    # Chunks that are there at the same time do not overlap.
    for a in found["chunks"]:
        for b in found["chunks"]:
            if a["id"] < b["id"] and a["time_begin"] < b["time_end"] and b["time_begin"] < a["time_end"]:
                assert a["addr_end"] <= b["addr_begin"] or b["addr_end"] <= a["addr_begin"]
    check_graph(json.loads((tmp_path / "logs" / "test" / "graph.json").read_text()), {"data"}, {"prob"})
    # What the vendor's graph_info_analyze does.
    vendor = json.loads((tmp_path / "logs" / "test" / "StaticMemoryInfo.json").read_text())
    peak = weights = 0
    used = dict.fromkeys(vendor["opr"], 0)
    for number, chunk in vendor["chunk"].items():
        assert chunk["id"] == number
        assert chunk["overwrite_dest_id"] == "-1"
        size = int(chunk["logic_addr_end"]) - int(chunk["logic_addr_begin"])
        if chunk["type"] == "weight_mem":
            weights += size
            continue
        assert chunk["type"] == "static_mem"
        assert chunk["time_begin"] in vendor["opr"]
        peak = max(peak, int(chunk["logic_addr_end"]))
        for at in range(int(chunk["time_begin"]), int(chunk["time_end"])):
            used[str(at)] += size
    assert peak == max(chunk["addr_end"] for chunk in found["chunks"])
    assert weights == found["weights"]
    assert max(used.values()) <= peak
    picture = xml.etree.ElementTree.parse(tmp_path / "logs" / "test" / "memory.svg").getroot()
    assert len(picture.findall("{*}rect")) == len(found["chunks"]) + 1
    open_network = LiteNetwork()
    open_network.load(flexible)
    with pytest.raises(RuntimeError, match="'data' is open"):
        open_network.get_static_memory_alloc_info(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeError, match="get_static_memory_alloc_info"):
        network.get_static_memory_alloc_info(tmp_path / "file")


def test_looking_may_be_asked_for_before_a_model_is_loaded(classifier: Path, tmp_path: Path) -> None:
    """As the vendor's Rust binding does; and it stays for the next model."""
    network = LiteNetwork()
    (tmp_path / "bin").mkdir()
    network.enable_profile_performance(tmp_path / "profile.json")
    network.io_txt_dump(tmp_path / "io.txt")
    network.io_bin_dump(tmp_path / "bin")
    counts = []
    for _ in range(2):
        network.load(classifier)
        network.get_io_tensor("data").set_data_by_copy(models.image())
        run(network)
        counts.append(len(BLOCK.findall((tmp_path / "io.txt").read_text())))
        assert json.loads((tmp_path / "profile.json").read_text())["profiler"]["device"]
        (tmp_path / "profile.json").unlink()
    assert counts[1] == 2 * counts[0] > 0
    assert any((tmp_path / "bin").iterdir())
