"""nbgrader's own commands with our configuration: one class from release to export, and what can go wrong on the way."""

import json
import os
import shutil
from pathlib import Path

import pytest

from helpers import ROOT, require
from hostile import tricks
from hostile.course import Course
from hostile.model import EXERCISES, MAIN, POINTS, UNIT, dump, filled

MATERIAL = tricks.material(ROOT)

pytestmark = pytest.mark.slow


def hand_in(course: Course, student: str, data: bytes) -> Path:
    folder = course.submitted(student)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MAIN).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A course with a released unit, to be copied."""
    require("bubblewrap")
    course = Course(tmp_path_factory.mktemp("released"))
    course.build()
    return course.folder


@pytest.fixture
def course(released: Path, tmp_path: Path) -> Course:
    shutil.copytree(released, tmp_path / "course", symlinks=True)
    return Course(tmp_path / "course")


def test_a_class_from_release_to_export(course: Course) -> None:
    essay = filled(MATERIAL, MATERIAL.right)
    next(c for c in essay["cells"] if "which_may_share" in str(c["metadata"]))["source"] = "Because of the mask."
    hand_in(course, "anna", dump(essay))
    hand_in(course, "bob", dump(filled(MATERIAL, MATERIAL.wrong)))
    hand_in(course, "carl", dump(MATERIAL.notebook))
    hand_in(course, "dora", b"this is no notebook")
    hand_in(course, "emil", dump(filled(MATERIAL, {"KVCache": MATERIAL.right["KVCache"]})))
    done = course.nbgrader("autograde", UNIT, "--create")
    assert done.returncode == 0, done.stderr

    marks = course.marks()
    assert marks["anna"] == POINTS
    assert marks["carl"] == marks["dora"] == dict.fromkeys(EXERCISES, 0.0)
    assert marks["emil"] == dict.fromkeys(EXERCISES, 0.0) | {"KVCache": 4.0}
    assert all(0 < marks["bob"][name] < POINTS[name] for name in EXERCISES)
    assert "the cell is as it was handed out" in course.feedback("carl")
    assert "can't be read as JSON" in course.feedback("dora")
    told = course.feedback("bob")
    assert "likely mistake: the scores are not divided by sqrt(d)" in told
    assert "likely mistake: the cache holds two tensors, K and V" in told
    assert "NOT ISOLATED" not in told

    again = course.nbgrader("autograde", UNIT, "--force")
    assert again.returncode == 0, again.stderr
    assert course.marks() == marks, "a second run gives the same marks"

    assert "the scores are not divided by sqrt(d)" in course.nbgraders_page("bob")
    assert course.nbgraders_scores() == {student: sum(marks[student].values()) for student in marks}


def test_formgraders_interface_grades_too(course: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import PyFileConfigLoader

    hand_in(course, "anna", dump(filled(MATERIAL, MATERIAL.right)))
    monkeypatch.chdir(course.folder)
    config = PyFileConfigLoader("nbgrader_config.py", path=str(course.folder)).load_config()
    api = NbGraderAPI(config=config)
    result = api.autograde(UNIT, "anna")
    assert result["success"], result.get("error")
    row = next(row for row in api.get_submissions(UNIT) if row["student"] == "anna")
    assert row["autograded"] and row["code_score"] == 12.0
    assert sorted(api.get_notebooks(UNIT), key=str)[0]["average_code_score"] == 12.0


def test_a_newer_hand_in_is_graded_again(course: Course) -> None:
    folder = hand_in(course, "anna", dump(MATERIAL.notebook))
    (folder / "timestamp.txt").write_text("2026-11-01 10:00:00 UTC")
    assert course.nbgrader("autograde", UNIT, "--create").returncode == 0
    assert sum(course.marks()["anna"].values()) == 0
    hand_in(course, "anna", dump(filled(MATERIAL, MATERIAL.right)))
    assert course.nbgrader("autograde", UNIT).returncode == 0
    assert sum(course.marks()["anna"].values()) == 0, "the same hand-in time: nbgrader does not look again"
    (folder / "timestamp.txt").write_text("2026-11-02 10:00:00 UTC")
    assert course.nbgrader("autograde", UNIT).returncode == 0
    assert course.marks()["anna"] == POINTS


def test_links_pipes_and_a_broken_timestamp_are_set_aside(course: Course) -> None:
    secret = course.folder / "secret.txt"
    secret.write_text("the instructor's")
    folder = hand_in(course, "mallory", dump(filled(MATERIAL, MATERIAL.right)))
    (folder / "notes.txt").symlink_to(secret)
    (folder / "zeros").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe")
    (folder / "timestamp.txt").write_text("no time at all")
    hand_in(course, "zoe", dump(filled(MATERIAL, MATERIAL.right)))
    done = course.nbgrader("autograde", UNIT, "--create", timeout=120)
    assert done.returncode == 0, done.stderr
    assert course.marks() == {"mallory": POINTS, "zoe": POINTS}
    kept = {path.name for path in folder.iterdir()}
    assert kept == {MAIN, *(f"{name}.set-aside" for name in ("notes.txt", "zeros", "pipe", "timestamp.txt"))}
    copied = {path.name for path in (course.folder / "autograded" / "mallory" / UNIT).iterdir()}
    assert copied == {MAIN}
    assert "notes.txt is no plain file" in done.stderr


def test_awkward_names_cost_nobody_else_anything(course: Course) -> None:
    folder = hand_in(course, "mallory", dump(filled(MATERIAL, MATERIAL.right)))
    (folder / ("x" * 250)).symlink_to("/etc/passwd")
    (folder / "notes").symlink_to("/etc/passwd")
    (folder / "notes.set-aside").mkdir()
    (folder / "notes.set-aside" / "mine.txt").write_text("keep me")
    (folder / "timestamp.txt").mkdir()
    renamed = course.submitted("paul")
    renamed.mkdir(parents=True)
    other = renamed / f"{UNIT} (1).ipynb"
    other.write_bytes(dump(MATERIAL.notebook))
    hand_in(course, "zoe", dump(filled(MATERIAL, MATERIAL.right)))
    done = course.nbgrader("autograde", UNIT, "--create", timeout=120)
    assert done.returncode == 0, done.stderr
    marks = course.marks()
    assert marks["mallory"] == marks["zoe"] == POINTS and sum(marks["paul"].values()) == 0
    assert (folder / "notes.set-aside" / "mine.txt").read_text() == "keep me"
    assert not any(path.is_symlink() for path in folder.iterdir() if not path.name.endswith(".set-aside"))
    other.write_bytes(dump(filled(MATERIAL, MATERIAL.right)))  # corrected, and graded again
    assert course.nbgrader("autograde", UNIT, "--force", "--student", "paul").returncode == 0
    assert course.marks()["paul"] == POINTS


def test_what_learners_write_brings_no_script_along(course: Course) -> None:
    essay = filled(MATERIAL, MATERIAL.right)
    answer = next(c for c in essay["cells"] if "which_may_share" in str(c["metadata"]))
    answer["source"] = "<script>alert(1)</script> <img src=x onerror=alert(2)> 1 < 2 [x](javascript:alert(3))"
    essay["metadata"]["kvlab"]["release"] = "x\n[AutogradeApp | ERROR] anna cheated\x1b]0;own\x07"
    code = next(c for c in essay["cells"] if "answer-KVCache" in str(c["metadata"]))
    code["source"] += "\n" + " \n" * 20_000
    hand_in(course, "mallory", dump(essay))
    done = course.nbgrader("autograde", UNIT, "--create")
    assert done.returncode == 0 and "anna cheated" not in done.stderr
    assert course.nbgrader("generate_feedback", UNIT, timeout=60).returncode == 0
    html = (course.folder / "feedback" / "mallory" / UNIT / f"{UNIT}.html").read_text(encoding="utf-8")
    body = html[html.index("<body") :]
    assert "<script>alert(1)" not in body and "<img src=x" not in body and 'href="javascript' not in body
    assert "1 &lt; 2" in body


def test_a_link_in_the_notebooks_place_is_not_followed(course: Course) -> None:
    folder = course.submitted("mallory")
    folder.mkdir(parents=True)
    (folder / MAIN).symlink_to(course.folder / "source" / UNIT / MAIN)
    hand_in(course, "zoe", dump(filled(MATERIAL, MATERIAL.right)))
    course.nbgrader("autograde", UNIT, "--create")
    marks = course.marks()
    assert marks["zoe"] == POINTS and sum(marks.get("mallory", {}).values()) == 0


def test_without_a_jail_nothing_is_graded_unless_asked_for(course: Course, tmp_path: Path) -> None:
    hand_in(course, "anna", dump(filled(MATERIAL, MATERIAL.right)))
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("prlimit", "setpriv"):
        (tools / name).symlink_to(str(shutil.which(name)))
    path = os.environ["PATH"]
    try:
        os.environ["PATH"] = str(tools)
        refused = course.nbgrader("autograde", UNIT, "--create")
        assert refused.returncode != 0
        assert "bwrap is missing: install Debian's package bubblewrap" in refused.stderr
        assert "anna" not in course.marks()
        open_run = course.nbgrader("autograde", UNIT, "--create", "--GradeInJail.unsafe_no_sandbox=True")
    finally:
        os.environ["PATH"] = path
    assert open_run.returncode == 0, open_run.stderr
    assert course.marks()["anna"] == POINTS
    assert course.feedback("anna").count("NOT ISOLATED") == len(EXERCISES)


def test_a_missing_release_is_said(course: Course) -> None:
    hand_in(course, "anna", dump(MATERIAL.notebook))
    shutil.rmtree(course.folder / "release")
    done = course.nbgrader("autograde", UNIT, "--create")
    assert done.returncode != 0 and "run `nbgrader generate_assignment" in done.stderr


def test_held_out_inputs_and_seeds_stay_with_the_instructor(course: Course) -> None:
    hand_in(course, "bob", dump(filled(MATERIAL, MATERIAL.wrong)))
    assert course.nbgrader("autograde", UNIT, "--create").returncode == 0
    seed = json.loads((course.folder / "seeds.json").read_text())[UNIT]
    text = (course.folder / "autograded" / "bob" / UNIT / MAIN).read_text(encoding="utf-8")
    from kvgrade import cases

    assert str(seed) not in text
    for exercise in cases.load(UNIT).values():
        for group in cases.draw(exercise, seed).values():
            for case in group:
                numbers = [arg for step in case.steps for arg in step.get("args", ()) if hasattr(arg, "ravel")]
                assert not any(f"{arg.ravel()[0]:.6f}"[:8] in text for arg in numbers if arg.size)
