"""Jupyter Notebook 7 shows the same: notebook 01 opens and runs there, and its first widget moves."""

from typing import TYPE_CHECKING

import pytest
from browser_lab import Lab, speed_up
from controls import Shown
from notebook_page import ERRORS, seated
from seats import SEATS

from helpers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(700)]


def test_notebook_01_runs_in_notebook_7_and_its_first_widget_moves(lab: Lab, browser: "Browser") -> None:
    from playwright.sync_api import expect

    seat = SEATS[0]
    copy = lab.work / "in_notebook_7.ipynb"
    copy.write_bytes((ROOT / "notebooks" / seat.name).read_bytes())
    speed_up(copy)
    with seated(browser, lab, copy.name) as (notebook, watch):
        notebook.open_in_notebook7().run_all()
        expect(notebook.page.locator(ERRORS)).to_have_count(0)
        widget = seat.widgets[0]
        Shown(notebook.cell(widget.call)).move(widget.moves[0])
        expect(notebook.panel(seat.exercise)).to_contain_text("not attempted yet")
        assert watch.elsewhere == [] and watch.ours == []
