"""Classify a picture on this machine's CPU.

python examples/classify.py                          # a scan that comes with Triune
python examples/classify.py model.onnx picture.jpg   # yours; needs triune[images]
"""

import sys

import numpy as np

import triune
from triune.batch import Preprocess, predict
from triune.models import DIGITS_INT8, digits_held_out


def main() -> None:
    if len(sys.argv) == 3:
        model, picture = sys.argv[1:]
        (found,) = predict(model, [picture], preprocess=Preprocess.imagenet(), top_k=5)
        for top in found.top:
            print(f"class {top.number}: {top.score:.4g}")
        return
    with triune.Session(DIGITS_INT8) as session:
        scans, digits = digits_held_out()
        image = np.ascontiguousarray(scans[:1].transpose(0, 3, 1, 2))
        (logits,) = session.run({"image": image})
        print(session.inputs[0], "->", session.outputs[0])
        print(f"it is a {logits.argmax()}, and was a {digits[0]}")


if __name__ == "__main__":
    main()
