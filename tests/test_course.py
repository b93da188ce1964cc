"""The folder of a class, as nbgrader sees it, but without importing nbgrader."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvgrade.course import CONFIG, Course, CourseError
from kvgrade.intake.released import released_notebooks

STEPS = ("source", "release", "submitted", "autograded", "feedback", "solution")
OWN = """
c.CourseDirectory.submitted_directory = "handed in"
c.CourseDirectory.release_directory = "given"
c.CourseDirectory.directory_structure = "{nbgrader_step}/{student_id}/{assignment_id}"
"""


@pytest.mark.parametrize("own", ["", OWN])
def test_folders_are_those_of_nbgrader(tmp_path: Path, own: str) -> None:
    (tmp_path / CONFIG).write_text(f"c = get_config()\n{own}")
    course = Course.find(tmp_path)
    for step in STEPS:
        assert course.named(step) == getattr(course.directory, f"{step}_directory")
        folder = course.folder(course.named(step), "anna", "01_kv_cache")
        assert str(folder) == course.directory.format_path(course.named(step), "anna", "01_kv_cache")
    assert len({course.folder(course.named(step), "anna", "01_kv_cache") for step in STEPS}) == len(STEPS)


def test_another_order_of_folders_is_refused(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(
        "c = get_config()\nc.CourseDirectory.directory_structure = '{nbgrader_step}/{assignment_id}/{student_id}'\n"
    )
    with pytest.raises(CourseError, match=r"leave it '\{nbgrader_step\}/\{student_id\}/\{assignment_id\}'"):
        Course.find(tmp_path).submitted("01_kv_cache")


def test_the_release_of_the_class_counts_wherever_it_lies(tmp_path: Path) -> None:
    (tmp_path / CONFIG).write_text(f"c = get_config()\n{OWN}")
    own = tmp_path / "given" / "01_kv_cache" / "01_kv_cache.ipynb"
    own.parent.mkdir(parents=True)
    own.write_text('{"cells": [], "of": "this class"}')
    assert released_notebooks(tmp_path)["01_kv_cache"]["of"] == "this class"


def test_hand_ins_are_found_without_nbgrader(tmp_path: Path) -> None:
    """Importing it takes longer than grading some hand-ins."""
    (tmp_path / CONFIG).write_text("c = get_config()\n")
    (tmp_path / "submitted" / "anna" / "01_kv_cache").mkdir(parents=True)
    code = (
        "import sys; from pathlib import Path; from kvgrade import gradebook, jail, plan; from kvgrade.course import "
        "Course; print(*Course.find(Path(sys.argv[1])).submitted('01_kv_cache'), 'nbgrader' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["anna", "False"]
