"""Runs a network on the host as a program for Icraft does: network (.json), weights (.raw), image (.npy)."""

import sys

import host_backend as same_backend
import numpy as np
import xrt
from icraft.host_backend import *  # noqa: F403
from icraft.xir import *  # noqa: F403
from icraft.xrt import *  # noqa: F403

# ruff: noqa: F405
assert xrt.Tensor is Tensor
assert same_backend.HostBackend is HostBackend

network = Network.CreateFromJsonFile(sys.argv[1])
network.loadParamsFromFile(sys.argv[2])

image = np.ascontiguousarray(np.load(sys.argv[3]))
input_tensor = Tensor(image, Layout("NHWC"))

session = Session.Create([HostBackend], network.view(0), [HostDevice.Default()])
session.enableTimeProfile(True)
session.apply()
output_tensors = session.forward([input_tensor])

result = session.timeProfileResults()
time = np.array(list(result.values()))
assert time.shape == (len(network.ops), 4)
assert np.sum(time[:, 2]) < session.totalTime()

for output_tensor in output_tensors:
    print(np.array(output_tensor).argmax())
