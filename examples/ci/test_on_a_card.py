"""In continuous integration, without a board: pytest examples/ci

The fixture `triune_card` comes with Triune. A program that imports the vendor's names is tested with ``--triune-compat``.
"""

import numpy as np
import pytest

from triune.axelera.runtime import BoardType
from triune.models import DIGITS_INT8, digits_held_out
from triune.pytest_plugin import VirtualCard


def test_digits_on_the_card(triune_card: VirtualCard) -> None:
    """The network is as right as it was, and takes no more cycles than it may."""
    model, instance = triune_card.load(DIGITS_INT8)
    (source,), (result,) = model.inputs(), model.outputs()
    scans, digits = digits_held_out()
    right = 0
    for scan, digit in zip(scans[:50], digits[:50], strict=True):
        quantized = np.round(scan[None] / source.scale + source.zero_point).clip(-128, 127).astype(np.int8)
        logits = np.empty(result.shape, np.int8)
        instance.run([np.pad(quantized, source.padding, constant_values=source.zero_point)], [logits])
        right += logits[tuple(slice(before, -behind or None) for before, behind in result.padding)].argmax() == digit
    assert right >= 45
    assert instance.profile().cycles < 100_000


@pytest.mark.triune_cards("m2")
def test_another_card(triune_card: VirtualCard) -> None:
    """The smaller card has the device, too."""
    (device,) = triune_card.context.list_devices()
    assert device.board_type is BoardType.m2
