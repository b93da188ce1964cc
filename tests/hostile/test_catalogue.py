"""Checks of the catalogue itself: it is sound, repeatable and free of this machine. Nothing of it is run here."""

import ast
import hashlib
import json
import os
import stat
import warnings
from pathlib import Path

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from helpers import ROOT
from hostile import tricks
from hostile.model import AS_WRONG, Fifo, HandIn, Link, Trick, answer, check, dump, filled, marked

MATERIAL = tricks.material(ROOT)
ALL = tricks.all()
HONEST = [trick for trick in ALL if trick.honest]
# Honest tricks whose answers are cut up, hidden or damaged on purpose, so that no cell of theirs need parse alone.
PATCHWORK = {"truncated", "source-number", "source-mixed", "invalid-utf-8", "cells-mixed"}


def digest(hand_in: HandIn) -> str:
    found = hashlib.sha256()
    for name, content in hand_in.items():
        found.update(name.encode() + b"\0")
        found.update(content if isinstance(content, bytes) else repr(content).encode())
    return found.hexdigest()


@pytest.fixture(scope="module")
def made() -> dict[str, HandIn]:
    return {trick.name: trick.make(MATERIAL) for trick in ALL}


def test_names_are_unique_and_fit_a_folder() -> None:
    names = [trick.name for trick in ALL]
    assert len(set(names)) == len(names)
    for name in names:
        assert name == name.lower() and name.replace("-", "").isalnum() and len(name) < 50, name
    assert [trick.name for trick in tricks.all()] == names
    assert tricks.named(names[3], names[0]) == [ALL[3], ALL[0]]


def test_there_are_enough_of_each_kind() -> None:
    assert len(ALL) >= 150
    assert sum(trick.honest and trick.expect.marks == "full" for trick in ALL) >= 45
    assert sum(not trick.honest for trick in ALL) >= 100
    assert sum(trick.expect.graded is False for trick in ALL) >= 15


@pytest.mark.parametrize("trick", ALL, ids=lambda trick: trick.name)
def test_what_is_a_sentence_and_the_expectation_is_complete(trick: Trick) -> None:
    assert trick.what.endswith(".") and len(trick.what) > 15, trick.what
    words = {"full", "zero", "as wrong", "at most wrong", "any"}
    for exercise in tricks.EXERCISES:
        due = trick.expect.of(exercise)
        assert due in words if isinstance(due, str) else 0 <= due[0] <= due[1] <= 1
    if not isinstance(trick.expect.marks, str):
        assert set(trick.expect.marks) == set(tricks.EXERCISES)
    if trick.expect.graded is False:
        assert trick.expect.marks == "zero", "what is not graded earns nothing"
    if not trick.honest:
        assert trick.expect.marks != "full", "a cheat is not owed full marks"


def test_making_is_repeatable_and_leaves_the_material_alone(made: dict[str, HandIn]) -> None:
    before = json.dumps(MATERIAL.notebook)
    again = tricks.material(ROOT)
    for trick in ALL:
        assert digest(trick.make(again)) == digest(made[trick.name]), trick.name
    assert json.dumps(again.notebook) == before == json.dumps(MATERIAL.notebook)


def test_no_hand_in_is_huge(made: dict[str, HandIn]) -> None:
    for name, hand_in in made.items():
        size = sum(len(content) for content in hand_in.values() if isinstance(content, bytes))
        assert size < 80_000_000, f"{name} has {size:,} bytes"


def test_no_hand_in_names_this_machine(made: dict[str, HandIn]) -> None:
    own = {str(ROOT), str(Path.home()) + "/dev", os.uname().nodename} - {"localhost"}
    for name, hand_in in made.items():
        for content in hand_in.values():
            text = content if isinstance(content, bytes) else repr(content).encode()
            for place in own:
                assert place.encode() not in text, f"{name} has {place}"


def test_every_hand_in_is_its_own(made: dict[str, HandIn]) -> None:
    """Two tricks with the same bytes would test one thing twice."""
    seen: dict[str, str] = {}
    for name, hand_in in made.items():
        other = seen.setdefault(digest(hand_in), name)
        assert other == name, f"{name} and {other} are the same hand-in"


def test_the_material_is_sound() -> None:
    assert set(MATERIAL.right) == set(MATERIAL.wrong) == set(tricks.EXERCISES)
    for exercise in tricks.EXERCISES:
        assert "NotImplementedError" in "".join(answer(MATERIAL.notebook, exercise)["source"])
        assert f'check.exercise("{exercise}")' in "".join(check(MATERIAL.notebook, exercise)["source"])
        assert MATERIAL.right[exercise] != MATERIAL.wrong[exercise]
    notebook = filled(MATERIAL, MATERIAL.right)
    assert json.loads(dump(notebook)) == notebook
    assert answer(notebook, "KVCache")["source"] == marked("KVCache", MATERIAL.right["KVCache"])


@pytest.mark.parametrize("trick", HONEST, ids=lambda trick: trick.name)
def test_honest_answers_parse(trick: Trick, made: dict[str, HandIn]) -> None:
    """A full-mark oddity must be code that a notebook accepts; a typing error in it would prove nothing."""
    content = made[trick.name].get(tricks.MAIN)
    if trick.expect.marks != "full" or trick.name in PATCHWORK or not isinstance(content, bytes):
        return
    cells = json.loads(content.decode("utf-8-sig"))["cells"]
    found = 0
    for cell in cells:
        source = "".join(cell["source"]).removeprefix("\ufeff")
        if cell["metadata"].get("nbgrader", {}).get("grade_id", "").startswith("answer-") or "# exercise:" in source:
            if "which_may_share" in str(cell["metadata"]):
                continue
            code = TransformerManager().transform_cell(source)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                compile(code, trick.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)
            found += 1
    assert found >= len(tricks.EXERCISES)


def test_dangerous_code_is_marked_harmful(made: dict[str, HandIn]) -> None:
    """What forks, kills, fills or writes outside the course must never be run without a jail."""
    signs = (
        "os.fork(",
        "os.kill(",
        "SIGKILL",
        "ptrace",
        "os.mkfifo",
        "shutil.rmtree",
        ".mount(",
        "os.execv",
        "filler-",
        "os.abort",
    )
    ours = "shutil.rmtree(half, ignore_errors=True)"  # in the notebook's first cell, on Colab
    for trick in ALL:
        content = made[trick.name].get(tricks.MAIN)
        text = content.decode("utf-8", "replace") if isinstance(content, bytes) else ""
        if any(sign in text.replace(ours, "") for sign in signs):
            assert trick.harmful, trick.name
        if any(isinstance(item, Fifo) for item in made[trick.name].values()):
            assert trick.harmful, trick.name


def test_place_lays_down_files_links_and_pipes(tmp_path: Path) -> None:
    tricks.place({"a/b.txt": b"x", "link": Link("../nowhere"), "pipe": Fifo()}, tmp_path / "ann" / tricks.UNIT)
    folder = tmp_path / "ann" / tricks.UNIT
    assert (folder / "a" / "b.txt").read_bytes() == b"x"
    assert os.readlink(folder / "link") == "../nowhere"
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)


def test_a_cheat_is_measured_against_the_plain_wrong_answers(made: dict[str, HandIn]) -> None:
    plain = tricks.named("honest-wrong")[0]
    assert plain.expect == AS_WRONG and plain.honest
    content = made["honest-wrong"][tricks.MAIN]
    assert isinstance(content, bytes)
    notebook = json.loads(content)
    for exercise, source in MATERIAL.wrong.items():
        assert answer(notebook, exercise)["source"] == marked(exercise, source)
