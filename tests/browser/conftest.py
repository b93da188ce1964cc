"""A real JupyterLab, started as a learner starts it, and a real Chromium that looks at it."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from browser_lab import Lab

from helpers import ROOT, program, require

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

START_SECONDS = 90
TIMEOUT_MS = 120_000
# Chromium must neither ask for the network nor need a sandbox, which root in a container does not get.
CHROMIUM_ARGS = (
    "--no-sandbox",
    "--headless=new",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`kvlab lab` on a free port with the released notebooks; the token is read from the address it prints."""
    require("chromium")
    require("playwright")
    base = tmp_path_factory.mktemp("lab")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {"JUPYTER_RUNTIME_DIR": str(base / "runtime"), "PYTHONPATH": str(ROOT / "src")}
    env.pop("JUPYTER_TOKEN", None)
    command = [sys.executable, "-m", "kvlab", "lab", "--no-browser", "--port", str(port), "--dir", str(base / "work")]
    log = base / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=env, stdout=out, stderr=out)
    try:
        printed = re.compile(rf"http://(?:127\.0\.0\.1|localhost):{port}/lab\?token=(\w+)")
        deadline = time.monotonic() + START_SECONDS
        while (match := printed.search(log.read_text(errors="replace"))) is None:
            assert process.poll() is None, f"kvlab lab ended: {log.read_text(errors='replace')}"
            assert time.monotonic() < deadline, f"kvlab lab did not start: {log.read_text(errors='replace')}"
            time.sleep(0.2)
        yield Lab(f"http://127.0.0.1:{port}", match.group(1), base / "work")
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=20)


@pytest.fixture
def page(lab: Lab) -> Iterator["Page"]:
    """An empty page of a fresh Chromium that reaches only this machine.

    A picture of it is left in build/screenshots/, also when the test fails.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program("chromium"),
            args=list(CHROMIUM_ARGS),
        )
        try:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(TIMEOUT_MS)
            page.route("**/*", _only_this_machine)
            with _screenshot(page, ROOT / "build" / "screenshots" / "smoke_end.png"):
                yield page
        finally:
            browser.close()


def _only_this_machine(route: "Route") -> None:
    """Let a request to the local server through and refuse every other one."""
    if urlsplit(route.request.url).hostname == "127.0.0.1":
        route.continue_()
    else:
        route.abort()


@contextmanager
def _screenshot(page: "Page", path: Path) -> Iterator[None]:
    try:
        yield
    finally:
        path.parent.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=path)
