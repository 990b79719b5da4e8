"""What the tests of `triune profile` and `triune report` share: packages to look at, and a browser."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triune
from triune.models import DIGITS_INT8
from triune.profiling import Profile, profile

NETWORKS = ["squeezenet_u8s8_qdq", "yolox_nano_u8s8_qdq"]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

Browse = Callable[..., tuple[str, list[str]]]

AUDIT = """
<script>
window.addEventListener("load", async () => {
  const audit = await axe.run(document, {resultTypes: ["violations"]});
  const found = {
    broken: audit.violations.map(each => [each.id, each.impact, each.nodes.length, each.nodes[0].html.slice(0, 200)]),
    passed: audit.passes.map(each => each.id), dark: getComputedStyle(document.body.parentElement).backgroundColor,
  };
  document.head.innerHTML = "";
  document.body.innerHTML = '<pre id="probe"></pre>';
  document.getElementById("probe").textContent = JSON.stringify(found);
});
</script>
"""


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the digits network for batches of 2. Do not write into it."""
    return triune.compile(DIGITS_INT8, target="metis", output=tmp_path_factory.mktemp("seeing") / "digits", batch=2)


@pytest.fixture(scope="session", params=["digits", *NETWORKS])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Profile:
    """Return the profile of the embedded network, and of real ones where they are."""
    if request.param == "digits":
        return profile(request.getfixturevalue("digits"))
    source = request.getfixturevalue("test_data") / "models" / "onnx" / f"{request.param}.onnx"
    return profile(triune.compile(source, output=tmp_path_factory.mktemp("profile") / request.param))


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
def browser(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that opens a page's text in a headless browser, `dark` or light, with more options; or skip."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    program: str = found

    def run(text: str, size: tuple[int, int], dark: bool, *options: str) -> subprocess.CompletedProcess[str]:
        folder = tmp_path_factory.mktemp("browser")
        (folder / "page.html").write_text(text, encoding="utf-8")
        command = [program, "--headless=new", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
        # Nothing may come from elsewhere.
        command += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder / 'profile'}", "--no-first-run"]
        command += ["--no-sandbox"] if os.geteuid() == 0 else []
        command += ["--blink-settings=preferredColorScheme=0"] if dark else []
        command += [f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=10000", *options]
        done = subprocess.run(
            [*command, (folder / "page.html").as_uri()], capture_output=True, text=True, timeout=120, cwd=folder
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


@pytest.fixture(scope="session")
def browse(browser: Callable[..., subprocess.CompletedProcess[str]]) -> Browse:
    """Return a function that opens a page's text in a headless browser of some width, `dark` or light, or skip.

    It gives the text of the page's element `probe` and the lines on the browser's console.
    """

    def open_page(text: str, width: int, dark: bool = False) -> tuple[str, list[str]]:
        done = browser(text, (width, 1600), dark, "--dump-dom")
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        probe = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
        return unescape(probe.group(1)) if probe else "", console

    return open_page


@pytest.fixture(scope="session")
def photograph(
    browser: Callable[..., subprocess.CompletedProcess[str]], tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """Return a function that gives a page as a browser of some width and height shows it: uint8, (height, width, 3), RGB."""
    pillow = pytest.importorskip("PIL.Image", reason="no reader of screenshots: pillow is not installed")

    def take(text: str, width: int, height: int, dark: bool = False) -> np.ndarray[Any, Any]:
        file = tmp_path_factory.mktemp("screenshot") / "page.png"
        browser(text, (width, height), dark, f"--screenshot={file}")
        return np.asarray(pillow.open(file).convert("RGB"))

    return take


@pytest.fixture(scope="session")
def audit(browse: Browse) -> Callable[[str, bool], dict[str, Any]]:
    """Return a function that lets axe-core look for what keeps people out of a page, `dark` or light; or skip.

    It gives the rules that are `broken`, with impact and place, those that `passed`, and the ground's color.
    """
    for name in ("axe_playwright_python", "axe_core_python"):
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            axe = (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")
            break
    else:
        pytest.skip("no axe-core: axe-playwright-python is not installed")

    def look(page: str, dark: bool) -> dict[str, Any]:
        text, console = browse(page.replace("</body>", f"<script>{axe}</script>{AUDIT}</body>"), 1440, dark)
        assert console == []
        seen: dict[str, Any] = json.loads(text)
        return seen

    return look
