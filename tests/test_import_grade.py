"""What is imported is graded: names of a platform, a damaged file, an earlier hand-in beside, a due date; nbgrader's run."""

from pathlib import Path

import pytest

from class_files import UNIT, zipped
from helpers import ROOT, require
from hostile import tricks
from hostile.course import Course
from hostile.model import dump, filled
from kvgrade.__main__ import main

pytestmark = pytest.mark.slow


def test_an_imported_class_is_graded(tmp_path: Path) -> None:
    require("bubblewrap")
    from nbgrader.api import Gradebook

    klass = Course(tmp_path / "class")
    klass.build()
    address = f"sqlite:///{klass.folder / 'gradebook.db'}"
    with Gradebook(address) as book:
        book.update_or_create_assignment(UNIT, duedate="2026-03-02 12:00:00 UTC")
    material = tricks.material(ROOT)
    wrong, right = dump(filled(material, material.wrong)), dump(filled(material, material.right))
    for files, options, code in (
        (
            {"lovelaceada_501_9001_x.ipynb": wrong, "hoppergrace_LATE_502_9002_x.ipynb": right[:-50]},
            ["--unit", "01"],
            1,
        ),
        ({"lovelaceada_501_9007_x-1.ipynb": right}, ["--timestamps", "files"], 0),
    ):
        (tmp_path / "in.zip").write_bytes(zipped(files, dict.fromkeys(files, (2026, 3, 4, 12, 0, 0))))
        assert main(["import", str(tmp_path / "in.zip"), "--course", str(klass.folder), *options]) == code
    assert (klass.submitted("501") / "earlier-1.set-aside").is_file()
    done = klass.nbgrader("autograde", UNIT, "--create")
    assert done.returncode == 0, done.stderr[-2000:]
    marks = klass.marks()
    assert sum(marks["501"].values()) == 12 and sum(marks["502"].values()) == 0
    assert "can't be read as JSON" in klass.feedback("502")
    with Gradebook(address) as book:
        assert book.find_submission(UNIT, "501").total_seconds_late > 86_400
        assert book.find_submission(UNIT, "502").timestamp is None
    assert not list((klass.folder / "autograded").rglob("*set-aside"))
