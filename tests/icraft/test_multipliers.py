"""Multipliers m·2⁻ⁿ that calibration puts weights on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triune._multipliers import next_multipliers


@given(st.floats(2**-60, 255, allow_subnormal=False), st.sampled_from([8, 16]))
def test_the_next_multiplier_is_one_of_the_accelerators(factor: float, bits: int) -> None:
    (found,) = next_multipliers(np.array([factor]), bits)
    longest = 2 * bits + 5
    m, n = found, 0
    while m != int(m):
        m, n = m * 2, n + 1
    assert n <= longest
    assert 1 <= m <= 255
    assert found >= factor
    # No smaller one would do: the step at that size.
    step = max(2.0 ** (np.floor(np.log2(factor)) - 7), 2.0**-longest)
    assert found - factor < step


@pytest.mark.parametrize("bits", [8, 16])
def test_multipliers_are_their_own_next(bits: int) -> None:
    exact = np.array([m * 2.0**-n for n in range(2 * bits + 6) for m in range(128, 256)])
    np.testing.assert_array_equal(next_multipliers(exact, bits), exact)
    beyond = np.array([255.5, 300.0])
    np.testing.assert_array_equal(next_multipliers(beyond, bits), beyond)
