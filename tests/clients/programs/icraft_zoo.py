"""What scripts of the vendor's model zoo do around a session: `icraft_zoo.py JSON RAW URL OUT`."""

import re
import sys
from datetime import timedelta

import icraft
import numpy as np
from icraft import xir, xrt
from icraft.buyibackend import OUTPUT, BuyiBackend, Segment
from icraft.host_backend import HostBackend

JSON, RAW, URL, OUT = sys.argv[1:]
assert re.sub("json$", "raw", JSON) == RAW
network = icraft.xir.Network.CreateFromJsonFile(JSON)
network.lazyLoadParamsFromFile(RAW)
none = xir.Operation(xir.ObjectRef())
merged = xir.Bool(network.getTag("speedmode")).__bool__() or xir.Bool(network.getTag("compressFtmp")).__bool__()
bits = {op.outputs[0].dtype.getStorageType().bits() for op in network.ops if "buyit" in str(op.compile_target)}
custom = {op.typeKey() for op in network.ops if "customop" in op.typeKey()}

device = xrt.Device.Open(URL)
xrt.BuyiDevice(device).mmuModeSwitch(merged)
session = xrt.Session.Create([BuyiBackend, HostBackend], network.view(0), [device, xrt.HostDevice.Default()])
backend = BuyiBackend(session.backends[0])
if not merged:
    backend.compressFtmp()
    backend.speedMode()
session.enableTimeProfile(True)
session.apply()

value = network.ops[0].outputs[0]
tensor_type = value.tensorType()
array = np.arange(np.prod(tensor_type.shape)).reshape(tensor_type.shape) % 17 / 16
tensor_type.setShape(list(array.shape))
assert str(tensor_type.getStorageType()) == '"@fp(32)"'
tensor = xrt.Tensor(array.astype(np.float32), tensor_type)
outputs = session.forward([tensor])
for output in outputs:
    output.waitForReady(timedelta(milliseconds=1000))
device.reset(1)
on_host = [output.to(xrt.HostDevice.MemRegion()) for output in outputs]
with open(OUT, "wb") as file:
    on_host[0].dump(file, "SFB")

times = np.array(list(session.timeProfileResults().values()))
segment = backend.phy_segment_map[Segment(OUTPUT)]
same = segment.memchunk.begin.addr() == segment.phy_addr
print(bits, custom, none.defined(), times.shape[1], bool(times[:, 2].max() > 0), segment.byte_size, same)
xrt.Device.Close(device)
