"""From `git clone` to the first slider moved, in minutes: python benchmarks/first_slider.py [--from ADDRESS] [--pip-args WORDS].

It does what README.md says under "Begin", in a temporary folder and with an empty package cache, as on a new machine:
git clone, make lab, notebook 01 opened in Chromium, Run All, the first slider moved. Minutes of each step are printed
and never judged. It needs git, make, Chromium and, in the Python that runs it, playwright.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.profiling import describe_device

if TYPE_CHECKING:
    from browser_lab import Lab

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = re.compile(r"(http://(?:127\.0\.0\.1|localhost):\d+)/lab[^ ?]*\?token=(\w+)")
LOOK_SECONDS = 0.2
# What may stand in this environment, and not in that of a new machine.
ABSENT = (
    *("PYTHONPATH", "VIRTUAL_ENV", "JUPYTER_TOKEN", "KVLAB_NOTEBOOKS", "KVLAB_STRICT", "NBGRADER_EXECUTION"),
    *(
        "MAKELEVEL",
        "MAKEFLAGS",
        "MFLAGS",
        "VENV",
    ),  # a make that was started by a make says more, and takes its variables
)


class Steps:
    """Prints each step with the minutes since the one before."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def done(self, step: str) -> None:
        now = time.monotonic()
        print(f"{step:44}{(now - self.last) / 60:>8.2f} min", flush=True)
        self.last = now

    def total(self) -> None:
        print(f"{'in all':44}{(self.last - self.began) / 60:>8.2f} min")


@contextmanager
def make_lab(clone: Path, pip_args: str, limit: float, steps: Steps) -> Iterator[Lab]:
    """`make lab` in a clone, until JupyterLab has printed its address. Raises RuntimeError, with the last lines, for none."""
    from browser_lab import Lab

    own = {"PIP_CACHE_DIR": str(clone.parent / "pip"), "JUPYTER_RUNTIME_DIR": str(clone.parent / "runtime")}
    env = {name: value for name, value in os.environ.items() if name not in ABSENT} | own
    command = ["make", "lab", f"PIP_ARGS={pip_args}", f"LAB_ARGS=--no-browser --port {free_port()}"]
    log = clone.parent / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=clone, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        deadline, installed = time.monotonic() + limit, False
        while (found := ADDRESS.search(log.read_text(errors="replace"))) is None:
            ended = process.poll() is not None
            if ended or time.monotonic() > deadline:
                said = "ended without an address" if ended else f"gave no address within {limit:g} seconds"
                last = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
                raise RuntimeError(f"`make lab` {said}; its last lines:\n{last}")
            if not installed and any((clone / ".venv").glob(".installed-*")):
                installed = True
                steps.done("make lab: environment and packages")
            time.sleep(LOOK_SECONDS)
        steps.done("make lab: JupyterLab is there")
        yield Lab(*found.groups(), clone / "work")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def use(lab: Lab, steps: Steps) -> None:
    """Notebook 01 as the browser tests use it, up to its first slider."""
    from browser_lab import chromium
    from controls import Shown
    from notebook_page import NotebookPage
    from seats import SEATS

    seat = next(seat for seat in SEATS if seat.notebook.startswith("01_"))
    widget = next(widget for widget in seat.widgets if widget.moves)
    with chromium() as browser:
        page = NotebookPage(browser.new_page(viewport={"width": 1280, "height": 1000}), lab, seat.name)
        page.open()
        steps.done(f"{seat.notebook} is open")
        page.run_all()
        steps.done("Run All")
        cell = page.cell(widget.call)
        cell.scroll_into_view_if_needed()
        Shown(cell).move(widget.moves[0])
        steps.done("the first slider is moved, its figure is new")
        page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", default=str(ROOT), help="what git clones (default: this checkout)")
    parser.add_argument("--pip-args", default="", help="more words for pip, as make's PIP_ARGS")
    parser.add_argument("--limit", type=float, default=3600, help="seconds that `make lab` may take (default: 3600)")
    options = parser.parse_args()
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]
    print(describe_device("cpu"))
    with tempfile.TemporaryDirectory(prefix="kvlab-") as folder:
        clone, steps = Path(folder) / "kvlab", Steps()
        subprocess.run(["git", "clone", "--quiet", options.source, str(clone)], check=True)
        steps.done("git clone")
        try:
            with make_lab(clone, options.pip_args, options.limit, steps) as lab:
                use(lab, steps)
        except RuntimeError as error:
            sys.exit(str(error))
        steps.total()


if __name__ == "__main__":
    main()
