"""The Python examples of the vendor's manual of ZG330's backend, run as they are printed, on a network that is compiled here.

The manual is not part of the project; without it the test is skipped. Its slips are put right: what is C++ among the Python,
names that its own lines do not define, and addresses of boards.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from npu_networks import load

from triune import compat
from triune.icraft import zg330backend

URL = "axi://zg330aiu"
SLIPS = {
    "Device::Open": "Device.Open",
    "Device.Open(dev_url)": "Device.Open(axi_url)",
    "sess.backends": "sess1.backends",
    "socket://haps-zg330@192.168.124.24:5001": URL,
}


def examples(manual: str) -> list[str]:
    """Return the Python examples, without the numbers of their lines."""
    found = []
    for after in re.split(r"`Python ?示例`", manual)[1:]:
        code = after.split("```")[1].strip("\n")
        lines = []
        for line in code.splitlines():
            bare = re.sub(r"^\s?\d+", "", line)
            # Some lines have lost their numbers, and have blanks instead.
            lines.append(bare.strip())
        found.append("\n".join(lines) + "\n")
    return found


@pytest.fixture
def manual(test_data: Path) -> str:
    found = next((test_data / "seeds").glob("001*.txt"), None)
    if found is None:
        pytest.skip("the manual is not here")
    return found.read_text(encoding="utf-8")


def test_every_example_runs(
    manual: str, digits: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in (".json", ".raw"):
        shutil.copy(digits["zg330"] / f"digits_int8_ZG{suffix}", tmp_path / f"yolov5s_ZG{suffix}")
    compat.install("icraft", compat.ICRAFT)
    texts = examples(manual)
    assert len(texts) == 8
    ran = 0
    for text in texts:
        for slip, right in SLIPS.items():
            text = text.replace(slip, right)
        names: dict[str, Any] = {"network": load(digits["zg330"], "ZG")}
        fragment = "zg_backend." in text
        if fragment:
            # The manual leaves out what is in the other examples.
            exec(
                "import xir\nfrom xrt import *\nfrom zg330backend import *\n"
                f"zg_backend = Backend.Create(ZG330Backend, network.view(0), Device.Open({URL!r}))\n",
                names,
            )
        exec(compile(text, f"example {ran}", "exec"), names)
        ran += 1
        backend = names.get("zg330_backend", names.get("zg330_backend1", names.get("zg_backend")))
        if backend is not None:
            assert backend.is_applied == (".apply()" in text)
            assert backend.logic_segment_map
    assert ran == len(texts)


def attributes(manual: str) -> dict[str, list[str]]:
    """Return the attributes of each structure that the manual's third part lists, and the backend's functions."""
    found = {}
    for section in re.split(r"\n### 3\.\d+ ", manual)[1:]:
        name = re.match(r"\w+", section)
        assert name is not None
        # A type, the name, perhaps the value at first.
        declared = re.findall(r"^\* `([^`]+)`", section, re.MULTILINE)
        found[name[0]] = [re.sub(r"\s*=.*", "", text).split()[-1] for text in declared]
    found["ZG330Backend"] += re.findall(r"^\* `(\w+)` ?：", manual.split("## 一")[0], re.MULTILINE)[:7]
    return found


def test_every_attribute_of_the_manual_is_there(manual: str) -> None:
    table = attributes(manual)
    assert list(table) == [
        "ValueInfo",
        "HardOpInfo",
        "LogicSegment",
        "MemChunkInfo",
        "PhySegment",
        "ForwardInfo",
        "ZG330Backend",
    ]
    members = [(owner, name) for owner, names in table.items() for name in names]
    assert len(members) == 10 + 9 + 5 + 3 + 7 + 4 + 9 + 7
    missing = [(owner, name) for owner, name in members if not hasattr(getattr(zg330backend, owner), name)]
    assert missing == []
