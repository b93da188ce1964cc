"""The folder of a class, as nbgrader sees it, but without importing nbgrader."""

import subprocess
import sys
from pathlib import Path

import pytest

from kvgrade.course import CONFIG, Course

STEPS = ("source", "release", "submitted", "autograded", "feedback", "solution")
OWN = """
c.CourseDirectory.submitted_directory = "handed in"
c.CourseDirectory.directory_structure = "{student_id}/{nbgrader_step}/{assignment_id}"
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
