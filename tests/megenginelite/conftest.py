"""Devices as they are by default, whatever the environment says."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def default_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the configuration of simulated devices away."""
    monkeypatch.delenv("TRIUNE_LITE_DEVICES", raising=False)
