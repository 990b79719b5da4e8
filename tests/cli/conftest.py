"""What the tests of `triune profile` and `triune report` share: packages to look at, and a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import triune
from triune.models import DIGITS_INT8

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

Browse = Callable[..., tuple[str, list[str]]]


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the digits network for batches of 2. Do not write into it."""
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("seeing") / "digits", batch=2)


@pytest.fixture
def edited(digits: Path, tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], None]], Path]:
    """Return a function that copies the digits network and changes its model.json."""

    def edit(change: Callable[[dict[str, Any]], None]) -> Path:
        folder = shutil.copytree(digits, tmp_path / "edited")
        model = json.loads((folder / "model.json").read_text())
        change(model)
        (folder / "model.json").write_text(json.dumps(model))
        return folder

    return edit


@pytest.fixture(scope="session")
def browse(tmp_path_factory: pytest.TempPathFactory) -> Browse:
    """Return a function that opens a page's text in a headless browser of some width, `dark` or light, or skip.

    It gives the text of the page's element `probe` and the lines on the browser's console.
    """
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    browser: str = found

    def open_page(text: str, width: int, dark: bool = False) -> tuple[str, list[str]]:
        folder = tmp_path_factory.mktemp("browser")
        (folder / "page.html").write_text(text, encoding="utf-8")
        command = [browser, "--headless=new", "--disable-gpu", "--enable-logging=stderr", f"--window-size={width},1600"]
        # Nothing may come from elsewhere.
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}", "--no-first-run"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        command += ["--blink-settings=preferredColorScheme=0"] if dark else []
        command += ["--virtual-time-budget=10000", "--dump-dom", (folder / "page.html").as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        probe = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
        return unescape(probe.group(1)) if probe else "", console

    return open_page
