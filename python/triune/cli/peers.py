"""Other runtimes on this machine's CPU, for `triune bench --against`: with as many threads, none of which spins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Side(NamedTuple):
    """One side of a comparison."""

    run: Callable[[], list[Any]]
    """Returns the outputs of one batch."""
    batches: int = 1
    """How many batches a run computes."""


def onnxruntime(model: Path, threads: int, feeds: dict[str, Any]) -> Side:
    """ONNX Runtime: all optimizations, one run at a time."""
    try:
        import onnxruntime as ort
    except ImportError:
        raise ImportError("--against onnxruntime needs the extra 'onnx': pip install 'triune[onnx]'") from None
    how = ort.SessionOptions()
    how.intra_op_num_threads = threads
    how.inter_op_num_threads = 1
    how.log_severity_level = 3
    how.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(model, how, providers=["CPUExecutionProvider"])
    return Side(lambda: list(session.run(None, feeds)))


def openvino(model: Path, threads: int, feeds: dict[str, Any]) -> Side:
    """OpenVINO: all threads work at one run."""
    request = _compiled(model, threads, 1, feeds).create_infer_request()
    return Side(lambda: list(request.infer(feeds, share_inputs=True, share_outputs=True).values()))


def openvino_throughput(model: Path, threads: int, feeds: dict[str, Any]) -> Side:
    """OpenVINO: each thread has a run of its own."""
    compiled = _compiled(model, threads, threads, feeds)
    requests = [compiled.create_infer_request() for _ in range(threads)]

    def run() -> list[Any]:
        for request in requests:
            request.start_async(feeds, share_inputs=True)
        for request in requests:
            request.wait()
        return [requests[0].get_output_tensor(index).data for index in range(len(compiled.outputs))]

    return Side(run, threads)


PEERS: dict[str, Callable[[Path, int, dict[str, Any]], Side]] = {
    "onnxruntime": onnxruntime,
    "openvino": openvino,
    "openvino-throughput": openvino_throughput,
}


def _compiled(model: Path, threads: int, streams: int, feeds: dict[str, Any]) -> Any:
    try:
        from openvino import Core
    except ImportError:
        raise ImportError("--against openvino needs that package: pip install openvino") from None
    core = Core()
    network = core.read_model(model)
    # Of fixed extents, for which it plans once, as the others do.
    network.reshape({name: array.shape for name, array in feeds.items()})
    # Without the hint, reals have 16 bits where the CPU computes on those: as many as the others' are to be compared.
    how = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": streams, "INFERENCE_PRECISION_HINT": "f32"}
    return core.compile_model(network, "CPU", how)
