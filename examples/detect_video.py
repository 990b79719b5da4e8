"""Find objects in a video with a YOLOX network, and draw them into another one.

    python examples/detect_video.py yolox_nano.onnx street.mp4 found.mp4     # needs triune[images,video]

Pictures are decoded in this thread, and prepared and computed by workers, a few ahead of the one that is drawn: `predict` takes
a generator, keeps its order, and does not read on while nobody asks.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Iterator

import cv2
import numpy as np
from numpy.typing import NDArray

import triune
from triune.batch import Preprocess, predict

HOW = Preprocess(scale=1.0, color="bgr", fit="pad", fill=114, corner=True)
"""What YOLOX takes: bytes as they are, blue first, in the upper left corner of a gray square."""

Floats = NDArray[np.float32]


def decoded(rows: Floats, height: int, width: int) -> tuple[Floats, Floats]:
    """Return boxes (N, 4), x and y of a corner, width, height, in the network's pixels, and scores (N, classes)."""
    cells, strides = [], []
    for stride in (8, 16, 32):
        down, across = height // stride, width // stride
        y, x = np.mgrid[:down, :across]
        cells.append(np.stack([x, y], 2).reshape(-1, 2))
        strides.append(np.full((down * across, 1), stride))
    step = np.concatenate(strides).astype(np.float32)
    size = np.exp(rows[:, 2:4]) * step
    corner = (rows[:, :2] + np.concatenate(cells)) * step - size / 2
    return np.hstack([corner, size]), rows[:, 4:5] * rows[:, 5:]


def main(model: str, video: str, result: str) -> None:
    """Print how often each class was found, and write the video."""
    session = triune.Session(model)
    _, _, height, width = session.inputs[0].shape
    assert isinstance(height, int)
    assert isinstance(width, int)
    source = cv2.VideoCapture(video)
    extent = (int(source.get(cv2.CAP_PROP_FRAME_WIDTH)), int(source.get(cv2.CAP_PROP_FRAME_HEIGHT)))
    target = cv2.VideoWriter(result, cv2.VideoWriter.fourcc(*"mp4v"), source.get(cv2.CAP_PROP_FPS), extent)
    waiting: deque[NDArray[np.uint8]] = deque()

    def pictures() -> Iterator[NDArray[np.uint8]]:
        while True:
            there, picture = source.read()
            if not there:
                return
            waiting.append(picture)
            yield picture[..., ::-1]  # OpenCV has blue first

    # From the network's pixels to those of the video.
    fx, fy, ox, oy = HOW.place(extent, (width, height))
    counts: Counter[int] = Counter()
    for prediction in predict(session, pictures(), preprocess=HOW, batch=1):
        picture = waiting.popleft()
        boxes, scores = decoded(next(iter(prediction.outputs.values())), height, width)
        boxes = boxes * [fx, fy, fx, fy] + [ox, oy, 0, 0]
        best, classes = scores.max(1), scores.argmax(1)
        for index in cv2.dnn.NMSBoxesBatched(boxes.tolist(), best.tolist(), classes.tolist(), 0.4, 0.45):
            x, y, w, h = boxes[index].astype(int)
            counts[int(classes[index])] += 1
            cv2.rectangle(picture, (x, y), (x + w, y + h), (0, 200, 0), 2)
            cv2.putText(picture, str(classes[index]), (x, y + 20), cv2.FONT_HERSHEY_SIMPLEX, 0.7, (0, 200, 0), 2)
        target.write(picture)
    source.release()
    target.release()
    for number, count in counts.most_common():
        print(f"class {number}: {count} times")


if __name__ == "__main__":
    main(*sys.argv[1:])
