"""What programs do with a BUYI board before there is a network: open it, set it up, move images, copy by DMA, look after it."""

import sys

import numpy as np
import xir
from xrt import *  # noqa: F403

# ruff: noqa: F405

device = Device.Open("axi://ql100aiu?npu=0x40000000&dma=0x80000000")
BuyiDevice(device).mmuModeSwitch(False)
buyi = BuyiDevice(device)
buyi.setEnabledMPE(4, 4)

frame = np.random.default_rng(0).integers(0, 256, (48, 64, 4), np.uint8)
camera = device.getMemRegion("udma").malloc(frame.nbytes, False)
camera.write(0, frame, frame.nbytes)
image = Tensor(xir.TensorType(xir.IntegerType.UInt8(), [1, 48, 64, 4], xir.Layout("NHWC")), camera)
on_board = image.to(device.defaultMemRegion())

size = frame.nbytes
copy = device.defaultMemRegion().malloc(size, alignment=4096)
dma = 0x100041000
registers = device.defaultRegRegion()
for offset, value in (
    (0x18, on_board.data().addr()),
    (0x1C, on_board.data().addr() + size - 64),
    (0x20, copy.begin.addr()),
    (0x24, copy.begin.addr() + size - 64),
):
    registers.write(dma + offset, value, True)
registers.write(dma + 0x04, 1, True)
registers.write(dma + 0x04, 0, True)
while registers.read(dma + 0x84, True) != 0:
    pass

back = np.array(Tensor(image.dtype(), copy).to(HostDevice.MemRegion()))
print(np.array_equal(back[0], frame), buyi.modeInfo(), buyi.getRowsCols(), device.version()["icore"])
try:
    print(on_board.data().cptr())
except xir.InternalError as error:
    print(str(error).split("!")[0].split("] ")[1])
device.reset(1)
if not device.check(1):
    sys.exit(1)
Device.Close(device)
