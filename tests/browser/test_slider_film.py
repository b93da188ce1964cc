"""The film of the README is made by using the slider, and the one in docs/ is like it.

The new one is left in build/slider.gif: copy it to docs/ when the widget looks different.
"""

from typing import TYPE_CHECKING

import pytest
from browser_lab import Lab
from slider_film import KEYS, WIDTH, record

from helpers import ROOT, require

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(400)]
MOST_BYTES = 1_000_000


def test_the_film_shows_each_step_of_the_slider(lab: Lab, browser: "Browser") -> None:
    require("PIL")
    from PIL import Image

    made = ROOT / "build" / "slider.gif"
    made.parent.mkdir(exist_ok=True)
    record(lab, browser, made)
    for path in (made, ROOT / "docs" / "slider.gif"):
        with Image.open(path) as film:
            assert film.n_frames == len(KEYS) + 1 and film.width == WIDTH
            frames = set()
            for number in range(film.n_frames):
                film.seek(number)
                frames.add(film.convert("RGB").tobytes())
            assert len(frames) == 7, "six steps and the first; the way back shows three of them again"
        assert path.stat().st_size < MOST_BYTES
