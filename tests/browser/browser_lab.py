"""The JupyterLab and the Chromium that a browser test uses, started as a learner starts them."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import ROOT, program

if TYPE_CHECKING:
    from playwright.sync_api import Browser

START_SECONDS = 120
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


@dataclass(frozen=True)
class Lab:
    """A running Jupyter server: its address, the token it printed, and the folder that it shows."""

    address: str
    token: str
    work: Path

    def notebook_url(self, name: str) -> str:
        """The address that opens one notebook in JupyterLab, and nothing that an earlier session left open."""
        return f"{self.address}/lab/tree/{name}?token={self.token}&reset"

    def notebook7_url(self, name: str) -> str:
        """The address that opens the same notebook in Jupyter Notebook 7."""
        return f"{self.address}/notebooks/{name}?token={self.token}"


@contextmanager
def serve(base: Path, *options: str, course: Path = ROOT, env: Mapping[str, str] | None = None) -> Iterator[Lab]:
    """`kvlab lab` on a free port; the token is read from the address that it prints.

    base: an empty folder of the caller's: the learner's folder, the server's runtime files and its log go there.
    options: more words for `kvlab lab`. course: the checkout whose kvlab is started. env: added to the environment.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    work = base / "work"
    paths = [str(course / "src"), str(course / "grading"), *(env or {}).get("PYTHONPATH", "").split(os.pathsep)]
    own = {"JUPYTER_RUNTIME_DIR": str(base / "runtime"), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment = {**os.environ, **(env or {}), **own}
    for name in ("JUPYTER_TOKEN", "NBGRADER_EXECUTION", "KVLAB_STRICT"):
        environment.pop(name, None)
    command = [sys.executable, "-m", "kvlab", "lab", "--no-browser", "--port", str(port), "--dir", str(work), *options]
    log = base / "log"
    base.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=base)
    try:
        printed = re.compile(rf"http://(?:127\.0\.0\.1|localhost):{port}/lab[^ ?]*\?token=(\w+)")
        deadline = time.monotonic() + START_SECONDS
        while (match := printed.search(log.read_text(errors="replace"))) is None:
            assert process.poll() is None, f"kvlab lab ended: {log.read_text(errors='replace')}"
            assert time.monotonic() < deadline, f"kvlab lab did not start: {log.read_text(errors='replace')}"
            time.sleep(0.1)
        yield Lab(f"http://127.0.0.1:{port}", match.group(1), course / "grading" if "--instructor" in options else work)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=20)


@contextmanager
def chromium() -> Iterator["Browser"]:
    """A headless Chromium that asks for nothing by itself."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=list(CHROMIUM_ARGS))
        try:
            yield browser
        finally:
            browser.close()


def speed_up(notebook: Path) -> None:
    """Set the parameter FAST, as a learner may."""
    text = notebook.read_text(encoding="utf-8")
    assert text.count("FAST = False") == 1
    notebook.write_text(text.replace("FAST = False", "FAST = True"), encoding="utf-8")
