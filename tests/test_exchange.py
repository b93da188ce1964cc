"""From release to feedback through nbgrader's exchange, with its own commands; ours grade and write the pages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graded_class import ESSAY, MATERIAL, UNIT, hand_in
from helpers import ROOT, require
from hostile.course import Course

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]  # a dozen commands, each imports nbgrader anew


def command(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a Python module's command in a folder, with a home of its own."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    search = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    path = os.pathsep.join(str(ROOT / name) for name in ("grading", "src"))
    environment = {"PATH": search, "HOME": str(home), "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_a_page_finds_its_way_to_the_learner(tmp_path: Path) -> None:
    require("bubblewrap")
    course = Course(tmp_path / "course")
    course.folder.mkdir()
    course.build()
    exchange, learner = tmp_path / "exchange", tmp_path / "learner"
    exchange.mkdir()
    exchange.chmod(0o777)
    learner.mkdir()
    here = f"--Exchange.root={exchange}"
    theirs = ("--course=llm-internals", here)

    command("nbgrader", "release_assignment", UNIT, here, folder=course.folder)
    command("nbgrader", "fetch_assignment", UNIT, *theirs, folder=learner)
    (learner / UNIT / f"{UNIT}.ipynb").write_bytes(hand_in(dict(MATERIAL.wrong), ESSAY))
    command("nbgrader", "submit", UNIT, *theirs, folder=learner)
    command("nbgrader", "collect", UNIT, here, folder=course.folder)
    command("kvgrade", "grade", "--unit", "01", "--jobs", "1", folder=course.folder)
    assert "1 pages, 1 of them new" in command("kvgrade", "feedback", folder=course.folder).stdout
    command("nbgrader", "release_feedback", UNIT, here, folder=course.folder)
    command("nbgrader", "fetch_feedback", UNIT, *theirs, folder=learner)

    (page,) = (learner / UNIT / "feedback").glob("*/*.html")
    (written,) = (course.folder / "feedback").glob(f"*/{UNIT}/{UNIT}.html")
    assert page.read_bytes() == written.read_bytes()
    told = page.read_text(encoding="utf-8")
    assert "the scores are not divided by sqrt(d)" in told and "not marked yet" in told and "NOT ISOLATED" not in told
    marks = command("kvgrade", "export", "--to", "-", folder=course.folder).stdout
    assert "incomplete: 1 written answer not marked" in marks and " UTC,1.25,2.5,2.5,0.75,,7,0,0,0,,15," in marks
