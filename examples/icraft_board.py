"""Icraft's programs on a simulated ZG330 board: compile, load, bind to the board and the host, run, and what took how long.

python examples/icraft_board.py
"""

import tempfile

import numpy as np

import triune
from triune.icraft import xir
from triune.icraft.host_backend import HostBackend
from triune.icraft.xrt import Device, HostDevice, Session, Tensor
from triune.icraft.zg330backend import ZG330Backend
from triune.models import DIGITS_INT8, digits_held_out


def main() -> None:
    scans, digits = digits_held_out()
    with tempfile.TemporaryDirectory() as folder:
        triune.compile(DIGITS_INT8, target="zg330", format="icraft", output=folder)
        network = xir.Network.CreateFromJsonFile(f"{folder}/digits_int8_ZG.json")
        network.loadParamsFromFile(f"{folder}/digits_int8_ZG.raw")
        board = Device.Open("axi://zg330aiu")
        session = Session.Create([ZG330Backend, HostBackend], network, [board, HostDevice.Default()])
        session.enableTimeProfile(True)
        session.apply()
        (logits,) = session.forward([Tensor(scans[:1], xir.Layout("NHWC"))])
        print(f"it is a {np.array(logits).argmax()}, and was a {digits[0]}")
        print(session.timeProfileResults())


if __name__ == "__main__":
    main()
