"""A plugin of pytest that writes down which faults each test reaches, for a native module with faults in it.

``TRIUNE_MUTANTS_REACHED`` names the file in which the module, in this process or those that it starts, marks what it reaches;
``TRIUNE_MUTANTS_TESTS`` the one that gets a line of JSON per test. What a fixture of a module or a session reaches counts for
every test that uses it, what the import of a module of tests reaches for all of its tests.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest


class Reach:
    """Reads and clears the file between tests."""

    def __init__(self, file: str, log: str) -> None:
        """Open the file, and know where to write."""
        with open(file, "r+b") as opened:
            self.marks = mmap.mmap(opened.fileno(), 0)
        self.log = log
        self.of_fixtures: dict[int, set[int]] = defaultdict(set)
        self.of_modules: dict[str, set[int]] = defaultdict(set)
        self.now: set[int] = set()
        self.outcome = "passed"

    def take(self) -> set[int]:
        """Return what was reached since the last call."""
        marks = bytes(self.marks)
        found = set()
        at = marks.find(1)
        while at >= 0:
            found.add(at)
            self.marks[at] = 0
            at = marks.find(1, at + 1)
        return found

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """Give what an import reaches to the module."""
        report = yield
        self.of_modules[collector.nodeid.split("::")[0]] |= self.take()
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, Any, Any]:
        """Give what a fixture of several tests reaches to the fixture."""
        if fixturedef.scope == "function":
            return (yield)
        self.now |= self.take()
        try:
            return (yield)
        finally:
            self.of_fixtures[id(fixturedef)] |= self.take()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Write down what a test reached."""
        self.now = self.take()
        self.outcome = "passed"
        began = time.monotonic()
        try:
            return (yield)
        finally:
            reached = self.now | self.take() | self.of_modules[item.nodeid.split("::")[0]]
            info = getattr(item, "_fixtureinfo", None)
            for definitions in info.name2fixturedefs.values() if info else ():
                for definition in definitions:
                    reached |= self.of_fixtures.get(id(definition), set())
            line = {
                "test": item.nodeid,
                "seconds": time.monotonic() - began,
                "outcome": self.outcome,
                "reached": sorted(reached),
            }
            with open(self.log, "a") as log:
                log.write(json.dumps(line) + "\n")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst of a test's three parts."""
        if report.outcome != "passed":
            self.outcome = report.outcome


def pytest_configure(config: pytest.Config) -> None:
    """Begin."""
    config.pluginmanager.register(Reach(os.environ["TRIUNE_MUTANTS_REACHED"], os.environ["TRIUNE_MUTANTS_TESTS"]))
