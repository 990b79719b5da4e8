"""The vendor's API on a virtual Metis card: compile, load, run, and where the cycles go.

python examples/axelera_card.py
"""

import tempfile

import numpy as np

import triune
from triune.axelera.runtime import Context  # `from axelera.runtime import Context` behind `triune compat run`
from triune.models import DIGITS_INT8, digits_held_out


def main() -> None:
    scans, digits = digits_held_out()
    with tempfile.TemporaryDirectory() as folder, Context() as context:
        package = triune.compile(DIGITS_INT8, target="metis", output=f"{folder}/digits")
        model = context.load_model(package / "model.json")
        instance = context.device_connect().load_model_instance(model)
        (source,), (result,) = model.inputs(), model.outputs()
        quantized = np.round(scans[:1] / source.scale + source.zero_point).clip(-128, 127).astype(np.int8)
        logits = np.empty(result.shape, np.int8)
        instance.run([np.pad(quantized, source.padding, constant_values=source.zero_point)], [logits])
        found = logits[tuple(slice(before, -behind or None) for before, behind in result.padding)].argmax()
        print(f"it is a {found}, and was a {digits[0]}")
        print(instance.profile())


if __name__ == "__main__":
    main()
