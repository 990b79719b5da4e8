"""``triune axrun``: how fast a compiled model runs on a card, in the manner of the vendor's ``axrunmodel``."""

from __future__ import annotations

import argparse
import json
import threading
import time
from pathlib import Path
from typing import Any

from triune.cli.arguments import positive, seconds

_RUNS = 64
"""Modelled rates are of so many runs at least."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "axrun",
        help="measure a compiled model on a card",
        description="Run a compiled model on the cores of a card, each instance in a thread of its own, and print frames per "
        "second. dev: of the cores alone; host: by the time from a call to its result; system: of all frames in all the time. "
        "Modelled are those of the card; measured is how fast this machine simulates it.",
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a package's directory, or the model.json in it")
    parser.add_argument(
        "-d", "--device", metavar="DEVICE", help="a card's number or name (default: the first that is free)"
    )
    parser.add_argument("--seconds", metavar="S", type=seconds, default=10.0, help="to measure for (default: 10)")
    parser.add_argument(
        "--cores", "--aipu-cores", metavar="N", type=positive, default=4, help="to run on (default: %(default)s)"
    )
    parser.add_argument(
        "--double-buffer",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="transfers during runs (default: yes)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    from triune.axelera.runtime import Context

    file = options.model / "model.json" if options.model.is_dir() else options.model
    with Context() as context:
        model = context.load_model(file)
        batch = model._package.batch
        if options.cores % batch:
            raise ValueError(f"--cores: expected a multiple of {batch}, the model's batch size, got {options.cores}")
        device: Any = options.device
        connection = context.device_connect(int(device) if device and device.isdigit() else device, options.cores)
        count = options.cores // batch
        instances = [connection.load_model_instance(model, double_buffer=options.double_buffer) for _ in range(count)]
        measured = _measured(model, instances, options.seconds, batch)
        card = connection._card.name
        clock = min(connection._card.clock_mhz(core) for core in connection._reservation.sub_devices)
    found = {
        "device": card,
        "cores": options.cores,
        "batch": batch,
        "clock_mhz": clock,
        "modelled": _modelled(file, count, batch, 3 if options.double_buffer else 1, clock),
        "measured": measured,
    }
    print(json.dumps(found, indent=1) if options.json else _lines(found))
    return 0


def _modelled(file: Path, instances: int, batch: int, depth: int, clock_mhz: int) -> dict[str, float]:
    """Return frames per second of the card's own time."""
    from triune.profiling import Workload, compose

    def composed(depth: int) -> Any:
        # So long that the rates have settled, and no longer than a composition remembers.
        time = 0.05
        while True:
            found = compose([Workload(file, instances, depth=depth)], seconds=time, clock_mhz=clock_mhz)
            if len(found.runs) >= _RUNS or time >= 3000:
                return found
            time *= 4

    found = composed(depth)
    alone = composed(1) if depth > 1 else found
    busy = sum(end - start for run in found.runs for start, end in [run.compute])
    calls = sum(run.output[1] - run.queued for run in alone.runs)
    frames = instances * batch
    return {
        "device": frames * len(found.runs) * 1e9 / max(busy, 1),
        "host": frames * len(alone.runs) * 1e9 / max(calls, 1),
        "system": found.images_per_second,
    }


def _measured(model: Any, instances: list[Any], duration: float, batch: int) -> dict[str, float]:
    """Return frames per second of all instances on this machine: by the time of their calls, and by all the time."""
    import numpy as np

    times: list[list[float]] = [[] for _ in instances]
    errors: list[BaseException] = []
    start = threading.Event()

    def work(instance: Any, own: list[float]) -> None:
        inputs = [np.zeros(info.shape, info.dtype) for info in model.inputs()]
        outputs = [np.empty(info.shape, info.dtype) for info in model.outputs()]
        start.wait()
        try:
            while (now := time.perf_counter()) < end[0]:
                instance.run(inputs, outputs)
                own.append(time.perf_counter() - now)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=both) for both in zip(instances, times, strict=True)]
    for thread in threads:
        thread.start()
    begin = time.perf_counter()
    end = [begin + duration]
    start.set()
    try:
        for thread in threads:
            thread.join()
    finally:
        # After Ctrl-C they end with the run that they are in.
        end[0] = 0.0
    if errors:
        raise errors[0]
    took, calls = time.perf_counter() - begin, sum(map(len, times))
    return {"host": len(instances) * batch * calls / sum(map(sum, times)), "system": batch * calls / took}


def _lines(found: dict[str, Any]) -> str:
    modelled, measured = found["modelled"], found["measured"]
    return (
        f"modelled: dev:{modelled['device']:.1f} host:{modelled['host']:.1f} system:{modelled['system']:.1f}fps "
        f"({found['device']}, {found['cores']} cores, batch {found['batch']}, {found['clock_mhz']}MHz)\n"
        f"measured: host:{measured['host']:.1f} system:{measured['system']:.1f}fps (this machine, simulating)"
    )
