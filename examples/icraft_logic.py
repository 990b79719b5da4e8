"""A detector from a picture's bytes to boxes on a BUYI board, with the logic beside the accelerator in front and behind.

    triune compile yolox.onnx --target buyi --format icraft --scale 1 --color bgr --imagemake --detpost 0.3 -o networks
    python examples/icraft_logic.py networks/yolox_BY.json picture.jpg

The picture is fed as programs for the vendor's boards feed it; the rows of `DetPost` are those that they read.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

from triune.icraft.buyibackend import BuyiBackend
from triune.icraft.host_backend import HostBackend
from triune.icraft.xir import Layout, Network
from triune.icraft.xrt import Device, HostDevice, Session, Tensor


def feed(device: Device, picture: Tensor) -> None:
    """Put a picture into ``udma`` and start the DMA to `ImageMake`."""
    _, rows, columns, channels = picture.dtype().shape
    registers, pixels, group = device.defaultRegRegion(), rows * columns, 24 // channels
    length = ((pixels - 1) // group + 1) * 3
    last = pixels - (length - 3) // 3 * group
    address = picture.to(device.getMemRegion("udma")).data().addr()
    for offset, value in (
        (0x20, 0),
        (0x04, address),
        (0x08, length),
        (0x0C, last),
        (0x10, channels),
        (0x1C, 1),
        (0, 1),
    ):
        registers.write(0x1000C0000 + offset, value, True)


def main(network_file: str, picture_file: str) -> None:
    """Print the boxes with the highest scores."""
    network = Network.CreateFromJsonFile(network_file)
    network.loadParamsFromFile(str(Path(network_file).with_suffix(".raw")))
    device = Device.Open("axi://ql100aiu?npu=0x40000000&dma=0x80000000")
    session = Session.Create([BuyiBackend, HostBackend], network.view(0), [device, HostDevice.Default()])
    session.enableTimeProfile(True)
    session.apply()
    _, rows, columns, _ = network[0].outputs[0].tensorType().shape
    rgb = np.asarray(Image.open(picture_file).convert("RGB").resize((columns, rows)))
    pixels = np.ascontiguousarray(rgb[None, :, :, ::-1])
    picture = Tensor(pixels, Layout("NHWC"))
    feed(device, picture)
    levels = session.forward([picture])
    det = next(op for op in network.ops if "DetPost" in op.typeKey())
    scales = [value.tensorType().getNormratio().data[0] for value in det.inputs]
    found = []
    for level, tensor in enumerate(levels):
        objectness, box, classes = scales[3 * level : 3 * level + 3]
        stride = rows // det.outputs[level].tensorType().shape[1]
        for row in np.array(tensor)[0, 0]:
            column, line, _ = row[-6:].view(np.uint16)
            score = 1 / (1 + np.exp(-row[0] * objectness)) / (1 + np.exp(-row[128:-8].max() * classes))
            x, y, width, height = row[64:68] * box
            center = ((column + x) * stride, (line + y) * stride)
            size = (np.exp(width) * stride, np.exp(height) * stride)
            found.append((float(score), int(row[128:-8].argmax()), *map(float, (*center, *size))))
    for score, kind, *place in sorted(found, reverse=True)[:10]:
        print(f"class {kind}, score {score:.2f}: center and size {', '.join(f'{value:.0f}' for value in place)}")
    for op in network.ops:
        if "customop" in op.typeKey():
            print(f"{op.typeKey()}: {session.timeProfileResults()[op.op_id][2]:.3f} ms of the logic")
    Device.Close(device)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
