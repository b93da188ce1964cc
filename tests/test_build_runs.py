"""Built notebooks under papermill and nbgrader: unsolved, solved, spoilt."""

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvgrade import build
from tiny_course import ENV, NAME, TINY, course, replace, write


@pytest.fixture
def built(tmp_path: Path) -> Path:
    root = course(tmp_path)
    write(root)
    return root


def run(path: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Plain papermill on a notebook."""
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", str(path), str(path.with_suffix(".out.ipynb"))]
    return subprocess.run(
        command, env={**ENV, **variables}, cwd=path.parent, capture_output=True, text=True, check=False
    )


def solved(root: Path) -> Path:
    path = root / "solved.ipynb"
    path.write_text(build.solved_notebook(root / "grading" / "units" / TINY.name, root), encoding="utf-8")
    return path


@pytest.mark.slow
def test_run_all_unsolved_ends_well(built: Path) -> None:
    path = built / "notebooks" / f"{NAME}.ipynb"
    assert run(path).returncode == 0
    outputs = path.with_suffix(".out.ipynb").read_text("utf-8")
    assert outputs.count('"text/html"') == 2, "a panel for each check"
    assert "not attempted yet" in outputs and "execute_result" not in outputs
    done = run(path, KVLAB_STRICT="1")
    assert done.returncode != 0 and "AssertionError" in done.stderr


@pytest.mark.slow
def test_solved_is_green_when_strict_and_spoilt_is_red(built: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    done = run(solved(built), KVLAB_STRICT="1")
    assert done.returncode == 0, done.stderr
    spoil = replace("np.arange(1, len(x) + 1)", "np.arange(len(x)) + 1.5")
    done = run(solved(course(tmp_path_factory.mktemp("spoilt"), spoil)), KVLAB_STRICT="1")
    assert done.returncode != 0 and "running_mean: not right yet" in done.stderr


@pytest.mark.slow
def test_nbgraders_validator(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Python interface: the command line exits with 0 whatever it finds."""
    monkeypatch.setenv("PYTHONPATH", ENV["PYTHONPATH"])
    validator = importlib.import_module("nbgrader.validator").Validator()
    failed = validator.validate(str(built / "notebooks" / f"{NAME}.ipynb"))["failed"]
    checks = [item for item in failed if "check.exercise" in item["source"]]
    assert len(checks) == 2 and all("not attempted yet" in item["raw_error"] for item in checks)
    # Solutions typed into the released notebook, as a learner does it.
    released = json.loads((built / "notebooks" / f"{NAME}.ipynb").read_text("utf-8"))
    answers = json.loads(solved(built).read_text("utf-8"))
    for cell, answer in zip(released["cells"], answers["cells"], strict=True):
        if cell["metadata"].get("nbgrader", {}).get("grade_id", "").startswith("answer-"):
            cell["source"] = answer["source"]
    path = built / "handin.ipynb"
    path.write_text(json.dumps(released), encoding="utf-8")
    assert validator.validate(str(path)) == {}


@pytest.mark.slow
def test_plain_nbgrader_without_our_settings_fails_an_empty_hand_in(built: Path) -> None:
    """Autograded in a course that knows nothing of ours: 0 of the 3 marks that code earns."""
    other = built / "other"
    (other / "source" / NAME).mkdir(parents=True)
    shutil.copy(built / "grading" / "source" / NAME / f"{NAME}.ipynb", other / "source" / NAME)
    (other / "nbgrader_config.py").write_text("c = get_config()\nc.CourseDirectory.course_id = 'other'\n")
    (other / "submitted" / "anna" / NAME).mkdir(parents=True)
    shutil.copy(built / "notebooks" / f"{NAME}.ipynb", other / "submitted" / "anna" / NAME)
    for arguments in (["generate_assignment", NAME], ["autograde", NAME, "--create"]):
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(command, cwd=other, env=ENV, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    api = importlib.import_module("nbgrader.api")
    with api.Gradebook(f"sqlite:///{other / 'gradebook.db'}") as book:
        submission = book.find_submission(NAME, "anna")
        assert submission.notebooks[0].max_code_score == 3 and submission.notebooks[0].code_score == 0
