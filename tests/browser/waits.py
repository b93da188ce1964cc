"""How long a learner waits, in a real browser, from a key press on a widget's control to the new figure.

JupyterLab (`kvlab lab`) and Chromium run as in the browser tests. The page's own clock runs from the key's event to the
frame in which the new picture is decoded: the message to the kernel, the computation, the drawing and the way back.
"plain interact" is the usual way for comparison: `ipywidgets.interact` over one matplotlib line.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from browser_lab import Lab
from notebook_page import NotebookPage

from helpers import code_cell, write_notebook
from kvlab.profiling import Timing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TESTS = Path(__file__).resolve().parents[1]
PLAIN = "plain interact"
PLAIN_CELL = """# plain interact
import ipywidgets
import matplotlib.pyplot as plt

@ipywidgets.interact(n=ipywidgets.IntSlider(5, 1, 100, continuous_update=False))
def draw(n):
    plt.plot(range(n))
    plt.show()"""
START = f"""import sys
sys.path[:0] = [{str(TESTS)!r}]
from contextlib import ExitStack
from all_widgets import made
running = ExitStack()"""
# Waits for the next picture after the next key: milliseconds from the key's event to the frame that shows it.
WATCH = """box => {
    const pictures = () => Array.from(box.querySelectorAll('img, svg'), part => part.src || part.outerHTML).join();
    window.kvlabWait = new Promise(done => {
        const before = pictures();
        let began;
        box.addEventListener('keydown', () => { began = performance.now(); }, {capture: true, once: true});
        const seen = new MutationObserver(async () => {
            if (began === undefined || !pictures() || pictures() === before) return;
            seen.disconnect();
            await Promise.all(Array.from(box.querySelectorAll('img'), image => image.decode().catch(() => {})));
            requestAnimationFrame(() => done(performance.now() - began));
        });
        seen.observe(box, {childList: true, subtree: true, attributes: true, characterData: true});
    });
}"""
HANDLES = (".noUi-handle", "select")  # a slider where there is one, else a menu
KEYS = {".noUi-handle": ("ArrowLeft", "ArrowRight"), "select": ("ArrowUp", "ArrowDown")}
AT_START = """part => part.tagName === 'SELECT' ? part.selectedIndex === 0
    : Number(part.getAttribute('aria-valuenow')) <= Number(part.getAttribute('aria-valuemin'))"""
LIMIT_MS = 15_000


def waits(page: Page, notebook: NotebookPage, name: str, presses: int) -> Timing | None:
    """Seconds from key to figure, there and back; the first two presses load what is needed and don't count."""
    mark = "# plain interact" if name == PLAIN else f'"{name}"'
    box = notebook.cell(mark).locator(".jp-OutputArea-output .widget-vbox").first
    box.scroll_into_view_if_needed()
    handle = next(kind for kind in HANDLES if box.locator(kind).count())
    keys = KEYS[handle]
    if box.locator(handle).first.evaluate(AT_START):  # nothing stands before it: go there first
        keys = keys[::-1]
    seconds: list[float] = []
    for number in range(presses + 2):
        box.evaluate(WATCH)
        box.locator(handle).first.press(keys[number % 2])
        waited = page.evaluate(f"Promise.race([kvlabWait, new Promise(end => setTimeout(end, {LIMIT_MS}, null))])")
        if waited is None:
            return None
        seconds.append(waited / 1000)
    return Timing.of(seconds[2:])


def measure(lab: Lab, browser: Browser, names: list[str], presses: int) -> dict[str, Timing | None]:
    """The waits of each widget, all in one notebook."""
    shown = [code_cell(f"w{i}", f'list(made(running, "{name}"))') for i, name in enumerate(names)]
    write_notebook(lab.work / "waits.ipynb", [code_cell("start", START), code_cell("plain", PLAIN_CELL), *shown])
    page: Any = browser.new_page(viewport={"width": 1400, "height": 1000})
    notebook = NotebookPage(page, lab, "waits.ipynb")
    try:
        notebook.open().run_all()
        return {name: waits(page, notebook, name, presses) for name in (PLAIN, *names)}
    finally:
        notebook.close()
