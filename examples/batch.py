"""A folder of pictures through a model in worker threads, into a table.

python examples/batch.py                                     # scans that come with Triune
python examples/batch.py model.onnx folder results.parquet   # yours; needs triune[images,arrow]
"""

import sys

from triune.batch import Preprocess, predict
from triune.models import DIGITS_INT8, digits_held_out


def main() -> None:
    if len(sys.argv) == 4:
        model, folder, table = sys.argv[1:]
        how = Preprocess.imagenet(reducing_gap=2.0)
        with predict(model, folder, preprocess=how, top_k=5, on_error="skip") as predictions:
            print(predictions.write(table), "rows,", len(predictions.failures), "files left out")
        return
    scans, digits = digits_held_out()
    right = 0
    for each in predict(DIGITS_INT8, scans.transpose(0, 3, 1, 2), top_k=1):
        right += each.top[0].number == digits[each.index]
    print(f"{right} of {len(digits)} right")


if __name__ == "__main__":
    main()
