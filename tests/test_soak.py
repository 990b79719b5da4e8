"""A short soak of every API, in a process of its own, and leaks that it would notice."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("soak.py")
SPEC = importlib.util.spec_from_file_location("soak", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
soak: Any = sys.modules.setdefault("soak", importlib.util.module_from_spec(SPEC))
SPEC.loader.exec_module(soak)

CYCLES = 200

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="a process' memory is read from /proc")


@pytest.mark.parametrize("api", soak.APIS)
def test_nothing_stays_behind(api: str) -> None:
    command = [sys.executable, SCRIPT, "--apis", api, "--cycles", str(CYCLES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _files(kept: list[object]) -> None:
    kept.append(os.open(os.devnull, os.O_RDONLY))


def _threads(kept: list[object]) -> None:
    over = threading.Event()
    threading.Thread(target=over.wait).start()
    kept.append(over)


def _bytes(kept: list[object]) -> None:
    # Far more than what earlier tests gave back to the allocator.
    kept.append(b"x" * 1_000_000)


@pytest.mark.parametrize(("leak", "word"), [(_files, "files"), (_threads, "threads"), (_bytes, "bytes")])
def test_what_stays_behind_is_noticed(
    leak: Callable[[list[object]], None], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []

    @contextmanager
    def leaky(folder: Path) -> Iterator[Callable[[], object]]:
        yield lambda: leak(kept)

    monkeypatch.setitem(soak.APIS, "leaky", leaky)
    # What leaks here does not go if it is waited for.
    monkeypatch.setattr(soak, "PATIENCE", 0.2)
    try:
        curve = soak.soak("leaky", CYCLES, CYCLES // 10)
    finally:
        for each in kept:
            if isinstance(each, threading.Event):
                each.set()
            elif isinstance(each, int):
                os.close(each)
    # What other tests gave back late may grow as well: they ran in this process.
    assert any(word in complaint for complaint in curve.complaints())
