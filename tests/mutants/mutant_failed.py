"""A plugin of pytest that writes the names of tests that fail into the file that ``TRIUNE_MUTANTS_FAILED`` names."""

from __future__ import annotations

import os

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write a name."""
    if report.failed:
        with open(os.environ["TRIUNE_MUTANTS_FAILED"], "a") as log:
            log.write(report.nodeid + "\n")
