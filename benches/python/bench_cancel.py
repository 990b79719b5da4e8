"""Measure how long runs go on after Ctrl-C: the slowest of many, for each API.

    .venv/bin/python benches/python/bench_cancel.py [--times 100]

Each run is one that takes hours, in a process of its own; the parent sends SIGINT at a random moment and takes the time until the
child says that KeyboardInterrupt has come out. Behind a server, the server stands still (SIGSTOP) half of the times.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path.insert(0, str(TESTS))

LOOP = """
import sys
while True:
    print("ready", flush=True)
    try:
        work()
    except KeyboardInterrupt:
        print("stopped", flush=True)
"""


def main() -> None:
    """Print a line per API."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--times", type=int, default=100, metavar="N", help="interrupts per API (100)")
    times = parser.parse_args().times
    import importlib.util

    spec = importlib.util.spec_from_file_location("command_words", TESTS / "command_words.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["command_words"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import test_cancel as programs

    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRIUNE_RUNTIME_DIR"] = str(Path(folder) / "run")
        server = programs.Child(programs.SERVER)
        host, port = server.line().split()
        url = f"socket://zg330aiu@{host}:{port}"

        def forward(url: str, name: str) -> str:
            return programs.FORWARD.format(url=url, folder=str(Path(folder) / name))

        try:
            for name, program, stalls in (
                ("triune.Session.run, 1 thread", programs.SESSION.format(threads=1), None),
                ("triune.Session.run, all threads", programs.SESSION.format(threads=0), None),
                ("megenginelite LiteNetwork.forward", programs.LITE, None),
                ("megenginelite LiteNetwork.wait", programs.ASYNCHRONOUS, None),
                ("axelera ModelInstance.run", programs.AXELERA.format(folder=folder), None),
                ("icraft Device.icoreCalc, in the process", programs.ICRAFT.format(url="axi://zg330aiu"), None),
                ("icraft Device.icoreCalc, triune serve", programs.ICRAFT.format(url=url), server),
                ("icraft Session.forward, in the process", forward("axi://zg330aiu", "near"), None),
                ("icraft Session.forward, triune serve", forward(url, "far"), server),
            ):
                found = _measure(programs.Child(program + LOOP), times, stalls)
                middle = sorted(found)[len(found) // 2]
                print(
                    f"{name:40} median {middle * 1e3:6.1f} ms, slowest of {times} {max(found) * 1e3:6.1f} ms",
                    flush=True,
                )
        finally:
            server.process.kill()


def _measure(child: object, times: int, stalls: object) -> list[float]:
    found = []
    try:
        for index in range(times):
            assert child.line() == "ready", child.process.communicate()[1]  # type: ignore[attr-defined]
            time.sleep(0.1 + random.random() * 0.1)
            stalled = stalls is not None and index % 2 == 1
            if stalled:
                stalls.process.send_signal(signal.SIGSTOP)  # type: ignore[attr-defined]
            start = time.perf_counter()
            child.process.send_signal(signal.SIGINT)  # type: ignore[attr-defined]
            assert child.line() == "stopped"  # type: ignore[attr-defined]
            found.append(time.perf_counter() - start)
            if stalled:
                stalls.process.send_signal(signal.SIGCONT)  # type: ignore[attr-defined]
    finally:
        child.process.kill()  # type: ignore[attr-defined]
    return found


if __name__ == "__main__":
    main()
