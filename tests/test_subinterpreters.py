"""Subinterpreters: one interpreter of a process has the core, the others are told so."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import threading
import numpy as np
import triune
import _xxsubinterpreters as interpreters
from triune.models import DIGITS_F32

session = triune.Session(DIGITS_F32, threads=2)
images = {"image": np.ones((4, 1, 8, 8), np.float32)}
wanted = session.run(images)[0]
for _ in range(3):
    other = interpreters.create()
    for words in ("import triune._native", "import triune", "from triune import axelera, Session"):
        try:
            interpreters.run_string(other, words)
        except interpreters.RunFailedError as error:
            assert "ImportError" in str(error) and "one interpreter of a process" in str(error), error
        else:
            raise AssertionError(f"{words!r} is not refused")
    interpreters.destroy(other)
    # Threads still come back, and anew.
    found = []
    thread = threading.Thread(target=lambda: found.append(session.run(images)[0]), daemon=True)
    thread.start()
    thread.join(30)
    assert found and np.array_equal(found[0], wanted)
    import importlib
    assert importlib.import_module("triune._native") is triune._native
print("done")
"""


def test_a_second_interpreter_is_refused_and_the_first_stays_whole() -> None:
    pytest.importorskip("_xxsubinterpreters", reason="this Python has no module for subinterpreters")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
