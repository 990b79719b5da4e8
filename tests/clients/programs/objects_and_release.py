"""A client in another manner: the objects module under an alias, defaults everywhere, released by hand in a finally."""

import logging
import sys
import time
from contextlib import suppress

import axelera.runtime
import numpy as np
from axelera.runtime import axruntime
from axelera.runtime import objects as axr

logging.getLogger("axelera.runtime").setLevel(logging.WARNING)

ctx = axr.Context()
conn = inst = model = None
try:
    device = ctx.list_devices()[0]
    assert device.board_type.name in ("pcie", "m2", "sbc", "devboard", "alpha_pcie", "alpha_m2", "unknown")
    assert isinstance(device, axelera.runtime.DeviceInfo)
    assert axelera.runtime.BoardType[device.board_type.name].value == axruntime.BoardType.OMEGA_PCIE.value

    if not ctx.configure_device(device, clock_profile_core_0=700, mvm_utilisation_core_0="90"):
        while not ctx.device_ready(device):
            time.sleep(0.05)
    assert int(ctx.read_device_configuration(device)["clock_profile_core_0"]) == 700

    model = ctx.load_model(sys.argv[1])
    conn = ctx.device_connect(device)
    inst = conn.load_model_instance(model)
    info, out_info = model.inputs()[0], model.outputs()[0]
    image = np.load(sys.argv[2])[0]
    buffer = np.zeros(info.shape, np.int8)
    (_, _), (top, bottom), (left, right), (_, channels) = info.padding
    quantized = (np.round(image / info.scale) + info.zero_point).clip(-128, 127).astype(np.int8)
    buffer[:] = np.pad(quantized, ((top, bottom), (left, right), (0, channels)), constant_values=info.zero_point)
    result = np.zeros(out_info.shape, np.int8)
    inst.run([buffer], [result])
    classes = out_info.shape[3] - out_info.padding[3][1]
    print(int(result.reshape(-1)[:classes].argmax()))
except RuntimeError as e:
    sys.exit(f"ERROR: {e}")
finally:
    for thing in (inst, conn, model, ctx):
        with suppress(Exception):
            thing.release()
