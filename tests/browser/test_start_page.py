"""The start page in a browser, as released: it runs, its exercise answers, its quiz and widget work, nothing is clipped."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import test_seats
from browser_lab import Lab
from looks import OUTPUTS, THEMES, WIDTHS, axe_findings, choose_theme, clipped, draw_all, take
from notebook_page import ERRORS, seated
from seats import NEXT, Move, Seat, Widget
from test_seats import Taken

from helpers import require

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(700)]
START = Seat(
    "00_start", (Widget("widgets.kv_calculator(", (Move("Tokens", NEXT, "16,384"),)),), "double", "", "two more"
)
TWICE = 'def double(x):\n    if x < 0:\n        raise ValueError("negative")\n    return {} * x'


@pytest.fixture(scope="module")
def taken(lab: Lab, browser: "Browser") -> Iterator[Taken]:
    with seated(browser, lab, START.name) as (notebook, watch):
        notebook.open().run_all()
        yield Taken(START, notebook, watch)


def test_run_all_leaves_no_error_and_the_map_names_every_notebook(taken: Taken) -> None:
    test_seats.test_run_all_unsolved_leaves_no_error_and_draws_every_widget(taken)
    shown = taken.notebook.cell("course.show()").locator(OUTPUTS.split()[1]).first
    for number in range(1, 9):
        assert f"{number:02}_" in shown.inner_html()


def test_the_slider_and_the_quiz_work(taken: Taken) -> None:
    test_seats.test_the_keyboard_moves_every_control_and_the_figure_follows(taken)
    test_seats.test_a_quiz_question_answered_wrong_and_right_explains_both(taken)


def test_its_exercise_is_open_then_wrong_then_right(taken: Taken) -> None:
    from playwright.sync_api import expect

    notebook = taken.notebook
    panel = notebook.panel("double")
    expect(panel).to_contain_text("double: not attempted yet")
    for factor, said in (("3", "✗ double: not right yet"), ("2", "✓ double: right")):
        notebook.answer("double", TWICE.format(factor))
        expect(panel).to_contain_text(said)
    expect(notebook.page.locator(ERRORS)).to_have_count(0)


@pytest.mark.parametrize("theme", THEMES)
def test_outputs_are_accessible_and_nothing_is_clipped(taken: Taken, theme: str) -> None:
    require("axe_playwright_python")
    page = taken.notebook.page
    draw_all(page)
    choose_theme(page, theme)
    assert axe_findings(page) == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 2400})
        assert clipped(page) == []
        for call in ("course.show(", "course.exercises(", "widgets.kv_calculator(", "progress.show("):
            outputs = taken.notebook.cell(call).locator(".jp-OutputArea").first
            take(outputs, f"00_start_{call.strip('(')}_{theme}_{width}")


def test_the_page_asked_no_other_machine_and_logged_no_error(taken: Taken) -> None:
    """Last, so that it sees all that the other tests did on this page."""
    assert taken.watch.elsewhere == [] and taken.watch.ours == []
