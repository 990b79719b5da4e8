"""A client as the vendor's examples are written: an instance per group of cores, each in a worker thread."""

from __future__ import annotations

import argparse
import queue
import threading
from pathlib import Path

import numpy as np
from axelera.runtime import Context, ModelInstance, TensorInfo


class Worker(threading.Thread):
    def __init__(self, instance: ModelInstance) -> None:
        super().__init__(daemon=True)
        self.instance = instance
        self.todo: queue.Queue = queue.Queue()
        self.done: queue.Queue = queue.Queue()
        self.start()

    def run(self) -> None:
        while (item := self.todo.get()) is not None:
            frame, inputs, outputs = item
            try:
                self.instance.run(inputs, outputs)
            except Exception as error:
                self.done.put(error)
                break
            self.done.put((frame, outputs))

    def pop(self):
        item = self.done.get()
        if isinstance(item, Exception):
            raise item
        return item


def preprocess(image: np.ndarray, info: TensorInfo) -> np.ndarray:
    batch, *_ = info.unpadded_shape
    quantized = np.round(image / info.scale + info.zero_point).clip(-128, 127).astype(np.int8)
    padded = np.pad(quantized, info.padding[1:], mode="constant", constant_values=info.zero_point)
    return np.repeat(padded[np.newaxis, ...], batch, axis=0)


def postprocess(output: np.ndarray, info: TensorInfo) -> int:
    out = output[tuple(slice(b, -e if e else None) for b, e in info.padding)][0].squeeze()
    out = (out.astype(np.float32) - info.zero_point) * info.scale
    return int(np.argmax(out))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("images", type=Path)
    parser.add_argument("--aipu-cores", type=int, default=4)
    parser.add_argument("--double-buffer", action="store_true")
    args = parser.parse_args()
    images = np.load(args.images)

    with Context() as ctx:
        model = ctx.load_model(args.model)
        input_infos, output_infos = model.inputs(), model.outputs()
        assert output_infos[0].shape[1:-1] == (1, 1)
        batch_size = input_infos[0].shape[0]
        connections = [ctx.device_connect(None, batch_size) for _ in range(args.aipu_cores // batch_size)]
        instances = [
            connection.load_model_instance(
                model, num_sub_devices=batch_size, aipu_cores=batch_size, double_buffer=args.double_buffer
            )
            for connection in connections
        ]
        inputs = [[np.zeros(t.shape, np.int8) for t in input_infos] for _ in instances]
        outputs = [[np.zeros(t.shape, np.int8) for t in output_infos] for _ in instances]
        workers = [Worker(instance) for instance in instances]

        drop = len(workers) * 2 if args.double_buffer else 0
        frames = [*images, *[None] * drop]
        classes = []
        for number in range(len(frames) + len(workers)):
            slot = number % len(workers)
            if number >= len(workers):
                # The worker's last frame, before its buffers are used again.
                _, outs = workers[slot].pop()
                if number - len(workers) >= drop:
                    classes.append(postprocess(outs[0], output_infos[0]))
            if number < len(frames):
                frame = frames[number]
                inputs[slot][0][:] = 0 if frame is None else preprocess(frame, input_infos[0])
                workers[slot].todo.put((number, inputs[slot], outputs[slot]))
        for worker in workers:
            worker.todo.put(None)
        for worker in workers:
            worker.join()
    print(*classes)


if __name__ == "__main__":
    main()
