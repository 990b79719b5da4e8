"""Prints a network's operations, as programs written for the vendor's package do."""

import sys

import xir
from icraft.xir import *  # noqa: F403

network = xir.Network.CreateFromJsonFile(sys.argv[1])
network.loadParamsFromFile(sys.argv[2])
for op in network.ops:
    line = [op.typeKey().replace("Node", ""), str(op.compile_target)]
    for value in op.outputs:
        dtype = value.tensorType()
        line += [str(dtype.shape), str(dtype.element_dtype)]
    print(*line)
print("speed mode", bool(Bool(network.getTag("speedmode"))))  # noqa: F405
