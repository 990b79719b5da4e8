"""Run a model over a dataset on a cluster of Ray; needs triune[ray].

    python examples/ray_cluster.py                                # scans that come with Triune, two workers on this machine
    python examples/ray_cluster.py model.onnx photographs results # yours, into Parquet; with images, too

Within a cluster (`ray job submit`) it uses that; else Ray starts one on this machine.
"""

from __future__ import annotations

import sys

import numpy as np
import ray

from triune.batch import Preprocess
from triune.models import DIGITS_INT8, digits_held_out
from triune.ray import Predictor


def main() -> None:
    """Compute what the arguments say."""
    if len(sys.argv) == 4:
        model, folder, results = sys.argv[1:]
        pictures = ray.data.read_binary_files(folder, include_paths=True)
        options = {"model": model, "preprocess": Preprocess.imagenet(), "top_k": 5, "on_error": "skip"}
        pool = ray.data.ActorPoolStrategy(min_size=1, max_size=16)
        found = pictures.map_batches(Predictor, fn_constructor_kwargs=options, compute=pool, batch_size=64)
        found.write_parquet(results)
        return
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    scans, digits = digits_held_out()
    rows = [{"image": scan, "digit": digit} for scan, digit in zip(scans.transpose(0, 3, 1, 2), digits, strict=True)]
    # The model travels as bytes, so that no node needs the file.
    options = {"model": DIGITS_INT8.read_bytes(), "top_k": 1}
    found = ray.data.from_items(rows, override_num_blocks=4).map_batches(
        Predictor, fn_constructor_kwargs=options, compute=ray.data.ActorPoolStrategy(size=2), batch_size=64
    )
    right = sum(int(np.ravel(row["classes"])[0]) == row["digit"] for row in found.iter_rows())
    print(f"{right} of {len(digits)} right")


if __name__ == "__main__":
    main()
