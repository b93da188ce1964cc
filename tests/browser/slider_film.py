"""A short film of a slider in use, from screenshots."""

import io
from pathlib import Path
from typing import TYPE_CHECKING

from browser_lab import Lab
from controls import Shown
from notebook_page import NotebookPage
from seats import Move

from helpers import code_cell, write_notebook

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CALL = 'widgets.cache_stepper(model, text="mom washed the frame")'
KEYS = ("ArrowRight",) * 6 + ("ArrowLeft",) * 3
WIDTH = 720
SHOWN_MS = 700
COLOURS = 64


def record(lab: Lab, browser: "Browser", path: Path) -> None:
    """Open the cache stepper, press the slider's keys, and write what is seen as a GIF that repeats."""
    from PIL import Image

    name = "film.ipynb"
    write_notebook(
        lab.work / name,
        [
            code_cell("start", "import kvlab\nfrom kvlab import widgets\n\nmodel = kvlab.load()"),
            code_cell("film", CALL),
        ],
    )
    page = browser.new_page(viewport={"width": 1280, "height": 1100})
    notebook = NotebookPage(page, lab, name)
    try:
        notebook.open().run_all()
        shown = Shown(notebook.cell("widgets.cache_stepper("))
        shown.control("Step").locator(".noUi-handle").focus()
        frames = [shown.box.screenshot(animations="disabled")]
        for key in KEYS:
            shown.move(Move("Step", key))
            frames.append(shown.box.screenshot(animations="disabled"))
    finally:
        notebook.close()
    images = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in frames]
    height = max(image.height for image in images) * WIDTH // images[0].width
    small = [image.resize((WIDTH, height)).quantize(COLOURS) for image in images]
    small[0].save(path, save_all=True, append_images=small[1:], duration=SHOWN_MS, loop=0, optimize=True)
