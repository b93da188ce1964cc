"""One notebook open in JupyterLab, used as a learner uses it: menus, keys, and what is shown below the cells.

What ran and what failed is read from the saved notebook too, since a page may draw only the cells in sight.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from browser_lab import Lab
from watch import Watch

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

SECONDS = 120
RUN_SECONDS = 300
ASKED = 8  # times that Run All is chosen at most
ERRORS = (
    '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"], '
    '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
)
# What stands beside the last code cell, looked up anew each time: a page may draw its cells anew.
LAST_PROMPT = "([...document.querySelectorAll('.jp-CodeCell .jp-InputArea-prompt')].at(-1)?.textContent ?? '[ ]')"


@contextmanager
def seated(browser: "Browser", lab: Lab, name: str) -> "Iterator[tuple[NotebookPage, Watch]]":
    """A new page for the notebook `name`, still to be opened, and what is seen on that page. It is closed in the end."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    watch = Watch()
    watch.follow(page)
    notebook = NotebookPage(page, lab, name)
    try:
        yield notebook, watch
    finally:
        notebook.close()


class NotebookPage:
    """A page that shows one notebook. Every wait ends after SECONDS, that for a whole run after RUN_SECONDS."""

    def __init__(self, page: "Page", lab: Lab, name: str) -> None:
        self.page, self.lab, self.name = page, lab, name
        self.patience(SECONDS)

    def patience(self, seconds: float) -> None:
        """How long a single wait may take."""
        from playwright.sync_api import expect

        expect.set_options(timeout=seconds * 1000)
        self.page.set_default_timeout(seconds * 1000)

    @property
    def path(self) -> Path:
        return self.lab.work / self.name

    def open_in_notebook7(self) -> "NotebookPage":
        """Open it in Jupyter Notebook 7."""
        self.page.goto(self.lab.notebook7_url(self.name))
        self.wait_idle()
        return self

    def open(self) -> "NotebookPage":
        """Open it in JupyterLab and wait for its kernel."""
        from playwright.sync_api import expect

        self.page.goto(self.lab.notebook_url(self.name))
        # The toolbar's mark says "idle" before there is a kernel, and a Run All asked for then is lost; the status bar
        # goes from "Initializing" to "Idle" only when the page is connected.
        expect(self.page.locator("#jp-main-statusbar")).to_contain_text("| Idle")
        return self

    # Cells

    @property
    def cells(self) -> "Locator":
        return self.page.locator(".jp-NotebookPanel:visible .jp-CodeCell")

    def cell(self, text: str) -> "Locator":
        """The one code cell whose source contains `text`."""
        return self.cells.filter(has=self.page.locator(".jp-InputArea-editor", has_text=text))

    def panel(self, exercise: str) -> "Locator":
        """The panel under an exercise's check cell."""
        return self.cell(f'with check.exercise("{exercise}"').locator('[role="status"]')

    # Running

    def menu(self, name: str, item: str) -> None:
        """Choose `item` in the menu `name` of the menu bar."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text=name).get_by_text(name, exact=True).click()
        self.page.locator(".lm-Menu-itemLabel").get_by_text(item, exact=True).click()

    def run_all(self) -> None:
        """Run All Cells, and wait until all have run, or one has failed, which ends the run."""
        from playwright.sync_api import TimeoutError

        for _ in range(ASKED):
            self.menu("Run", "Run All Cells")
            try:  # it is lost when the page is not connected to the kernel yet, which Notebook 7 does not show
                self.page.wait_for_function(f"() => !/\\[ \\]/.test({LAST_PROMPT})", timeout=15_000)
                break
            except TimeoutError:
                continue
        # Cells run in order, so the last one has its number when all have run.
        ended = f"errors => /\\[\\d+\\]/.test({LAST_PROMPT}) || document.querySelector(errors)"
        self.page.wait_for_function(ended, arg=ERRORS, timeout=RUN_SECONDS * 1000)
        self.wait_idle()

    def wait_idle(self) -> None:
        """Wait until the kernel has done everything that was asked of it."""
        from playwright.sync_api import expect

        mark = self.page.locator(".jp-NotebookPanel:visible .jp-Notebook-ExecutionIndicator")
        expect(mark).to_have_attribute("data-status", "idle")

    def save(self) -> list[dict[str, Any]]:
        """Save, and give the cells as they now stand in the file."""
        with self.page.expect_response(lambda r: r.request.method == "PUT" and "/api/contents/" in r.url) as saved:
            self.menu("File", "Save Notebook")
        assert saved.value.ok, saved.value.status_text
        cells: list[dict[str, Any]] = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        return cells

    def answer(self, exercise: str, source: str) -> None:
        """Put `source` in place of the answer cell's text by the keyboard; run the answer, then its check."""
        first_line = f"# exercise: {exercise}"
        editor = self.cell(first_line).locator(".cm-content")
        editor.scroll_into_view_if_needed()
        editor.click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.insert_text(f"{first_line}\n{source}")
        self.page.keyboard.press("Control+Enter")
        self.run_check(exercise)

    def run_check(self, exercise: str) -> None:
        check = self.cell(f'with check.exercise("{exercise}"')
        check.scroll_into_view_if_needed()
        check.locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Control+Enter")

    def exercises(self) -> list[str]:
        """The names of all exercises, in the notebook's order."""
        cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]
        return re.findall(r'with check\.exercise\("(\w+)"', "\n".join("".join(cell["source"]) for cell in cells))

    def validate(self) -> str:
        """Press nbgrader's Validate and give what its dialog says."""
        self.page.locator(".jp-NotebookPanel-toolbar:visible").get_by_text("Validate", exact=True).click()
        dialog = self.page.locator(".jp-Dialog-content", has_text="Validation Results")
        dialog.wait_for(timeout=RUN_SECONDS * 1000)
        said = dialog.inner_text()
        dialog.get_by_role("button", name="Ok").click()
        return said

    def close(self) -> None:
        """End the notebook's kernel and the page."""
        headers = {"Authorization": f"token {self.lab.token}"}
        sessions = f"{self.lab.address}/api/sessions"
        for session in self.page.request.get(sessions, headers=headers).json():
            if session["path"] == self.name:
                self.page.request.delete(f"{sessions}/{session['id']}", headers=headers)
        self.page.close()


def failures(cells: list[dict[str, Any]]) -> list[str]:
    """Errors and lines on stderr among the saved outputs, and cells that did not run."""
    code = [c for c in cells if c["cell_type"] == "code" and "".join(c["source"]).strip()]
    outputs = [output for c in code for output in c["outputs"]]
    found = [f"{o['ename']}: {o['evalue']}" for o in outputs if o["output_type"] == "error"]
    found += ["".join(o["text"]) for o in outputs if o.get("name") == "stderr"]
    return found + [f"did not run: {''.join(c['source'])[:60]}" for c in code if c["execution_count"] is None]
