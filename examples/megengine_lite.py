"""MegEngine Lite's network and tensors: load, write an input, run, read an output.

python examples/megengine_lite.py
"""

import numpy as np

from triune.megenginelite import LiteConfig, LiteNetwork
from triune.models import DIGITS_F32, digits_held_out


def main() -> None:
    scans, digits = digits_held_out()
    network = LiteNetwork(config=LiteConfig())
    network.load(DIGITS_F32)  # or a .mge, a .lite
    image = np.ascontiguousarray(scans[:1].transpose(0, 3, 1, 2))
    network.get_io_tensor("image").set_data_by_copy(image)
    network.forward()
    network.wait()
    logits = network.get_io_tensor("logits").to_numpy()
    print(f"it is a {logits.argmax()}, and was a {digits[0]}")


if __name__ == "__main__":
    main()
