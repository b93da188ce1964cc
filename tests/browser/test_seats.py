"""Each notebook in a real browser, used as a learner uses it. What is done where stands in seats.py.

A notebook is opened and run once; the tests of one notebook then use the same page, in any order.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from browser_lab import Lab
from controls import Shown
from looks import OUTPUTS, THEMES, WIDTHS, axe_findings, choose_theme, clipped, draw_all, faint, take
from notebook_page import ERRORS, NotebookPage, failures, seated
from seats import SEATS, Seat
from watch import Watch

from helpers import ROOT, require

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(900)]
GROUNDS = "labels => labels.map(label => getComputedStyle(label).backgroundColor)"


@dataclass
class Taken:
    """A seat that is taken: the notebook is open and has run."""

    seat: Seat
    notebook: NotebookPage
    watch: Watch


@pytest.fixture(scope="module", params=SEATS, ids=lambda seat: seat.notebook)
def taken(request: pytest.FixtureRequest, lab: Lab, browser: "Browser") -> Iterator[Taken]:
    with seated(browser, lab, request.param.name) as (notebook, watch):
        notebook.open().run_all()
        yield Taken(request.param, notebook, watch)


def test_run_all_unsolved_leaves_no_error_and_draws_every_widget(taken: Taken) -> None:
    from playwright.sync_api import expect

    notebook = taken.notebook
    assert failures(notebook.save()) == []
    expect(notebook.page.locator(ERRORS)).to_have_count(0)
    for widget in taken.seat.widgets:
        shown = Shown(notebook.cell(widget.call))
        shown.box.scroll_into_view_if_needed()
        assert shown.picture and shown.text
        for move in widget.moves:
            expect(shown.control(move.control)).to_be_visible()
    asked = notebook.cell("quiz.predict(").locator(".widget-radio")
    assert asked.count() == notebook.cell("quiz.predict(").count() > 0


def test_the_keyboard_moves_every_control_and_the_figure_follows(taken: Taken) -> None:
    for widget in taken.seat.widgets:
        shown = Shown(taken.notebook.cell(widget.call))
        for move in widget.moves:
            shown.move(move)


def test_hints_open_one_by_one_with_the_keyboard(taken: Taken) -> None:
    from playwright.sync_api import expect

    page = taken.notebook.page
    first = page.locator(".jp-MarkdownCell details").filter(has_text=f"Hint 1 for {taken.seat.exercise}").first
    hints = [first, first.locator("details").first, first.locator("details details").first]
    expect(hints[2]).to_have_count(1)
    for number, hint in enumerate(hints, start=1):
        mark = hint.locator("> summary")
        expect(mark).to_be_visible()
        expect(mark).to_contain_text(f"Hint {number}")
        text = hint.locator("> p").first
        expect(text).to_be_hidden()
        for later in hints[number:]:
            expect(later).to_be_hidden()
        mark.press("Enter")
        expect(text).to_be_visible()
        assert len(text.inner_text()) > 20


def test_a_quiz_question_answered_wrong_and_right_explains_both(taken: Taken) -> None:
    from playwright.sync_api import expect

    path = ROOT / "data" / "quizzes" / f"{taken.seat.unit}.json"
    cell = taken.notebook.cell("quiz.show(")
    draw_all(taken.notebook.page)  # ends animations too: what is seen must not hang on them
    for question in json.loads(path.read_text(encoding="utf-8")):
        asked = cell.locator(".Quiz").filter(has=taken.notebook.page.get_by_text(question["question"], exact=True))
        options = asked.locator("input[type=radio]")
        said = asked.locator(".Feedback")
        assert options.count() == len(question["answers"])
        options.first.press("Space")
        seen = set()
        for _ in range(len(question["answers"])):  # once around with the arrow keys; the order is drawn
            chosen = asked.locator("label", has=asked.page.locator("input:checked"))
            (option,) = (o for o in question["answers"] if o["answer"] == chosen.text_content())
            verdict = "✓ Right. " if option["correct"] else "✗ No. "
            expect(said).to_have_text(verdict + option["feedback"])
            grounds = asked.locator("label").evaluate_all(GROUNDS)
            assert len(set(grounds)) == 2, f"without animations the chosen answer has no colour: {grounds}"
            seen.add(option["answer"])
            options.nth(0).page.keyboard.press("ArrowDown")
        assert seen == {o["answer"] for o in question["answers"]}


def test_an_exercise_is_diagnosed_then_right_and_validate_agrees(taken: Taken) -> None:
    from playwright.sync_api import expect

    seat, notebook = taken.seat, taken.notebook
    answers = ROOT / "grading" / "answers" / seat.exercise
    wrong, right = answers / f"{seat.wrong}.py", min(answers.glob("right_*.py"))
    panel = notebook.panel(seat.exercise)
    expect(panel).to_contain_text(f"{seat.exercise}: not attempted yet")
    notebook.answer(seat.exercise, wrong.read_text(encoding="utf-8"))
    expect(panel).to_contain_text(f"✗ {seat.exercise}: not right yet")
    expect(panel).to_contain_text(seat.rule)
    notebook.answer(seat.exercise, right.read_text(encoding="utf-8"))
    expect(panel).to_contain_text(f"✓ {seat.exercise}: right")
    expect(notebook.page.locator(ERRORS)).to_have_count(0)

    said = notebook.validate()
    names = notebook.exercises()
    failed = {name for name in names if f'check.exercise("{name}"' in said}
    assert failed == set(names) - {seat.exercise}, said


@pytest.mark.parametrize("theme", THEMES)
def test_outputs_are_accessible_and_nothing_is_clipped(taken: Taken, theme: str) -> None:
    require("axe_playwright_python")
    page, seat = taken.notebook.page, taken.seat
    draw_all(page)
    choose_theme(page, theme)
    assert axe_findings(page) == []
    assert faint(page) == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 2400})  # as tall as the tallest widget
        assert clipped(page) == []
        for widget in seat.widgets:
            name = widget.call.strip("(").removeprefix("widgets.")
            take(Shown(taken.notebook.cell(widget.call)).box, f"{seat.notebook}_{name}_{theme}_{width}")
        figures = page.locator(f"{OUTPUTS}[data-mime-type='text/html'] > img")
        for number in range(figures.count()):
            take(figures.nth(number), f"{seat.notebook}_figure{number + 1}_{theme}_{width}")
        take(taken.notebook.panel(seat.exercise), f"{seat.notebook}_panel_{theme}_{width}")
        take(taken.notebook.cell("quiz.show(").locator(".Quiz").first, f"{seat.notebook}_quiz_{theme}_{width}")


def test_the_page_asked_no_other_machine_and_logged_no_error(taken: Taken) -> None:
    """Last, so that it sees all that the other tests did on this page."""
    assert taken.watch.elsewhere == []
    assert taken.watch.ours == []
