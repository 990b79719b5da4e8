"""Classifies an image as a program for MegEngine Lite does: model, image (.npy)."""

import sys

import numpy as np
from megenginelite import *  # noqa: F403
from megenginelite.tensor import LiteTensor as SameTensor

# ruff: noqa: F405
assert SameTensor is LiteTensor

config = LiteConfig()
config.options.weight_preprocess = True
network = LiteNetwork(config)
network.load(sys.argv[1])

input_tensor = network.get_io_tensor(network.get_input_name(0))
output_tensor = network.get_io_tensor(network.get_output_name(0))
input_tensor.set_data_by_copy(np.load(sys.argv[2]))

network.forward()
network.wait()

print(output_tensor.to_numpy().argmax())
