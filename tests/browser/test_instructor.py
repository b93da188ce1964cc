"""`kvlab lab --instructor`: formgrader opens with the eight assignments, in a copy of the course."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser_lab import serve
from seats import SEATS
from watch import Watch

from helpers import ROOT, require

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(700)]

PARTS = ("src", "data", "notebooks", "grading", "pyproject.toml", "constraints.txt", "README.md")
# What a class leaves in grading/, and what a build makes; a fresh clone has none of it.
MADE = ("source", "release", "submitted", "autograded", "feedback", "gradebook.db*", "seeds.json", "__pycache__")


def fresh_clone(folder: Path) -> Path:
    """A copy of the course without what a class or a build has left."""
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns(*MADE))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / part, folder / part)
    return folder


def test_formgrader_opens_with_eight_assignments(tmp_path: Path, browser: "Browser") -> None:
    from playwright.sync_api import expect

    require("nbgrader")
    course = fresh_clone(tmp_path / "course")
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(course / "src"), str(course / "grading")])}
    built = subprocess.run(
        [sys.executable, "-m", "kvgrade", "build"], env=env, cwd=course, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    expect.set_options(timeout=120_000)
    with serve(tmp_path / "lab", "--instructor", course=course) as lab:
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(120_000)
        watch = Watch()
        watch.follow(page)
        try:
            page.goto(f"{lab.address}/lab?token={lab.token}&reset")
            page.locator(".lm-MenuBar-itemLabel").get_by_text("Nbgrader", exact=True).click()
            page.locator(".lm-Menu-itemLabel").get_by_text("Formgrader", exact=True).click()
            grader = page.frame_locator("iframe[src*=formgrader]")
            names = grader.locator("tbody tr td.name")
            expect(names).to_have_count(len(SEATS))
            assert sorted(name.strip() for name in names.all_inner_texts()) == [seat.notebook for seat in SEATS]
            assert watch.elsewhere == [] and watch.ours == []
        finally:
            page.close()
