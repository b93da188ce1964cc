"""One JupyterLab and one Chromium for all browser tests of a run."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from browser_lab import Lab, chromium, serve, speed_up

from helpers import require

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FULL_RUN = "00_start.ipynb"  # runs as released; the others with FAST, to save the minutes


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """`kvlab lab` with the released notebooks, in a learner's folder of its own."""
    require("chromium")
    require("playwright")
    with serve(tmp_path_factory.mktemp("lab")) as lab:
        for notebook in lab.work.glob("*.ipynb"):
            if notebook.name != FULL_RUN:
                speed_up(notebook)
        yield lab


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Closed after each file: while it is open the main thread has a running loop, in which no other test can start one."""
    require("chromium")
    require("playwright")
    with chromium() as browser:
        yield browser
