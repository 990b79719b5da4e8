"""The embedded network: a small CNN for handwritten digits, with the images it was not trained on.

`train_digits.py` in this folder made all of it, from the 1797 scans that scikit-learn ships.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["DIGITS_F32", "DIGITS_INT8", "digits_held_out", "digits_reference"]

_FOLDER = Path(__file__).parent

DIGITS_F32 = _FOLDER / "digits_f32.onnx"
"""The float network: input `image` N, 1, 8, 8 float32 in 0 to 1; output `logits` N, 10 float32."""

DIGITS_INT8 = _FOLDER / "digits_int8.onnx"
"""The same network quantized, in QDQ form: u8 activations, s8 weights per output channel."""


def digits_held_out() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Return the held-out images (N, 8, 8, 1 float32 in 0 to 1, NHWC) and their labels (N, 0 to 9).

    Examples:
        >>> from triune.models import digits_held_out
        >>> images, labels = digits_held_out()
        >>> images.shape, labels.shape
        ((540, 8, 8, 1), (540,))
    """
    import numpy as np

    with np.load(_FOLDER / "digits_heldout.npz") as data:
        return (data["images"] / 16).astype(np.float32)[..., None], data["labels"]


def digits_reference() -> tuple[npt.NDArray[np.float32], str]:
    """Return ONNX Runtime's logits of `DIGITS_INT8` for the held-out images (N, 10 float32), and its version."""
    import numpy as np

    with np.load(_FOLDER / "digits_heldout.npz") as data:
        logits: npt.NDArray[np.float32] = data["logits"]
    return logits, str(json.loads((_FOLDER / "digits.json").read_text("utf-8"))["onnxruntime"])
