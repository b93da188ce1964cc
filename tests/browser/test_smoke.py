"""Notebook 01 in a real browser: Run All unsolved, a slider moved with the keyboard, a check panel that changes.

One test, because opening JupyterLab and running the notebook are the slow part. Menus and keys are used as a learner
uses them. What ran and what failed is read from the saved notebook too, since a page may draw only the cells in sight.
"""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from browser_lab import Lab

from helpers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(700)]

NAME = "01_kv_cache.ipynb"
ANSWER = "# exercise: positions_processed"
CHECK = 'with check.exercise("positions_processed")'
STEPPER = "widgets.cache_stepper("
ERRORS = (
    '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"], '
    '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
)
HEAD = "def positions_processed(prompt_len, n_new, cached):"
# The forgotten case that the exercise is about: the last token is never fed back.
WRONG = (HEAD, "return prompt_len + n_new")
# Typed as in the editor, which keeps the indentation of the line before.
RIGHT = (
    HEAD,
    "naive = sum(prompt_len + i for i in range(n_new))",
    "if prompt_len < 1 or n_new < 0: raise ValueError('out of range')",
    "return 0 if n_new == 0 else prompt_len + n_new - 1 if cached else naive",
)
RUN_SECONDS = 240


def test_notebook_01_in_a_browser(lab: Lab, page: "Page") -> None:
    from playwright.sync_api import expect

    expect.set_options(timeout=RUN_SECONDS * 1000)
    page.goto(lab.notebook_url(NAME))
    # The toolbar's mark says "idle" before there is a kernel, and a Run All asked for then is lost; the status bar
    # goes from "Initializing" to "Idle" only when the page is connected.
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
    run_all(page)
    cells = wait_until_all_ran(page, lab.work / NAME)
    assert failures(cells) == []
    expect(page.locator(ERRORS)).to_have_count(0)
    expect(panel(page)).to_contain_text("positions_processed: not attempted yet")

    move_the_step_slider(page)
    page.screenshot(path=ROOT / "build" / "screenshots" / "smoke_widget.png")

    answer(page, WRONG)
    expect(panel(page)).to_contain_text("positions_processed: not right yet")
    expect(panel(page)).not_to_contain_text("not attempted")
    answer(page, RIGHT)
    expect(panel(page)).to_contain_text("✓ positions_processed: right")
    expect(page.locator(ERRORS)).to_have_count(0)


def kernel(page: "Page") -> "Locator":
    """The mark in the notebook's toolbar that tells what the kernel does."""
    return page.locator(".jp-NotebookPanel:visible .jp-Notebook-ExecutionIndicator")


def cell(page: "Page", text: str) -> "Locator":
    """The one code cell whose source contains `text`."""
    source = page.locator(".jp-InputArea-editor", has_text=text)
    return page.locator(".jp-NotebookPanel:visible .jp-CodeCell").filter(has=source)


def panel(page: "Page") -> "Locator":
    """The panel under the check cell."""
    return cell(page, CHECK).locator('[role="status"]')


def menu(page: "Page", name: str, item: str) -> None:
    """Choose `item` in the menu `name` of the menu bar."""
    page.locator(".lm-MenuBar-itemLabel", has_text=name).get_by_text(name, exact=True).click()
    page.locator(".lm-Menu-itemLabel").get_by_text(item, exact=True).click()


def run_all(page: "Page") -> None:
    menu(page, "Run", "Run All Cells")


def wait_until_all_ran(page: "Page", path: Path) -> list[dict[str, Any]]:
    """Wait for the kernel to finish everything that was asked of it, save, and give the saved cells."""
    from playwright.sync_api import expect

    # Cells run in order, so the last one has its number when all have run.
    last = page.locator(".jp-NotebookPanel:visible .jp-CodeCell").last.locator(".jp-InputPrompt").first
    expect(last).to_have_text(re.compile(r"\[\d+\]"))
    expect(kernel(page)).to_have_attribute("data-status", "idle")
    menu(page, "File", "Save Notebook")
    deadline = time.monotonic() + 20
    while True:
        cells: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = [c for c in cells if c["cell_type"] == "code" and "".join(c["source"]).strip()]
        waiting = ["".join(c["source"])[:60] for c in code if c["execution_count"] is None]
        if not waiting:
            return cells
        assert time.monotonic() < deadline, f"these cells did not run: {waiting}"
        page.wait_for_timeout(200)


def failures(cells: list[dict[str, Any]]) -> list[str]:
    """Errors and lines on stderr among the saved outputs."""
    outputs = [output for c in cells for output in c.get("outputs", [])]
    found = [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]
    return found + ["".join(o["text"]) for o in outputs if o.get("name") == "stderr"]


def move_the_step_slider(page: "Page") -> None:
    """Press ArrowRight on the stepper's slider: its number and its figure change; ArrowLeft brings both back."""
    from playwright.sync_api import expect

    stepper = cell(page, STEPPER)
    stepper.scroll_into_view_if_needed()
    slider = stepper.locator(".widget-slider").first
    number, handle = slider.locator(".widget-readout"), slider.locator(".noUi-handle")
    figure = stepper.locator("img.widget-image")
    expect(figure).to_be_visible()
    # Not inner_text, which is empty for what has just been scrolled to and is not drawn yet.
    first_number, first = number.text_content() or "", picture(figure)
    assert first_number.isdigit()
    handle.focus()
    handle.press("ArrowRight")
    expect(number).not_to_have_text(first_number)
    wait_for(page, lambda: picture(figure) != first, "the figure did not change when the slider moved")
    handle.press("ArrowLeft")
    expect(number).to_have_text(first_number)
    wait_for(page, lambda: picture(figure) == first, "the figure did not come back with the slider")


def picture(figure: "Locator") -> list[int]:
    """The bytes of the shown picture. Its address alone would not do: each update gets a new one."""
    read = "async image => Array.from(new Uint8Array(await (await fetch(image.src)).arrayBuffer()))"
    return list(figure.evaluate(read))


def wait_for(page: "Page", condition: Callable[[], bool], message: str) -> None:
    """Look again and again until the condition holds, for at most 30 seconds."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, message
        page.wait_for_timeout(100)


def answer(page: "Page", lines: tuple[str, ...]) -> None:
    """Put these lines in place of the answer cell's text by the keyboard; run the answer, then its check."""
    editor = cell(page, ANSWER).locator(".cm-content")
    editor.scroll_into_view_if_needed()
    editor.click()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.insert_text(ANSWER)
    for line in lines:
        page.keyboard.press("Enter")
        page.keyboard.insert_text(line)
    page.keyboard.press("Control+Enter")
    check = cell(page, CHECK)
    check.scroll_into_view_if_needed()
    check.locator(".jp-InputPrompt").click()
    page.keyboard.press("Control+Enter")
