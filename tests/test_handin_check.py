"""`kvlab check` and `kvgrade check`: what a hand-in lacks, said to its owner; a repaired one has the same answers."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from class_files import OTHER, RELEASED, UNIT, hand_in, notebook
from helpers import ROOT
from hostile import tricks
from hostile.model import EXERCISES, MAIN, answer, by_id, code_cell, dump, filled
from kvgrade.__main__ import main as kvgrade
from kvlab.cli.main import main as kvlab
from kvlab.handin import answers
from kvlab.handin.names import look
from kvlab.handin.repair import repaired
from kvlab.handin.report import inspect

MATERIAL = tricks.material(ROOT)
# What the grader owes these hand-ins is less than their owners think, or nobody can say what they think.
TOLD = {
    "copy-both-edited": "answer cells differ",
    "merged-cells": "no answer cell was found",
    "marker-of-another": "begins with `# exercise: positions_processed`",
    "right-code-elsewhere": "another cell defines",
    "leans-on-another-cell": "it uses `product_of`",
    "only-answers-left": "no answer cell was found",  # of the written question
}


def trouble(data: bytes) -> str:
    report = inspect(data, RELEASED)
    return "\n".join(
        [report.unreadable, *report.trouble, *(text for item in report.exercises for text in item.trouble)]
    )


@pytest.mark.parametrize("trick", [t for t in tricks.oddities.TRICKS], ids=lambda trick: trick.name)
def test_every_honest_oddity_is_told_what_it_is(trick: tricks.Trick) -> None:
    """Fine when the catalogue owes full marks, a sentence when it does not."""
    data = trick.make(MATERIAL)[MAIN]
    report = inspect(data, RELEASED)
    assert report.unit == UNIT
    if trick.name in TOLD:
        assert not report.fine and TOLD[trick.name] in trouble(data)
    else:
        assert report.fine, trouble(data)


def test_every_repaired_hand_in_has_the_same_answers() -> None:
    seen = 0
    for trick in tricks.all():
        data = trick.make(MATERIAL).get(MAIN)
        if not isinstance(data, bytes):
            continue
        before = answers.collect(data, RELEASED[UNIT])
        if before.unreadable:
            with pytest.raises(answers.Unreadable):
                repaired(data, RELEASED[UNIT])
            continue
        after = answers.collect(repaired(data, RELEASED[UNIT]), RELEASED[UNIT])
        assert after.answers == before.answers and after.facts == [], trick.name
        seen += 1
    assert seen > 250


@pytest.mark.parametrize("trick", tricks.unreadable.TRICKS, ids=lambda trick: trick.name)
def test_what_can_not_be_read_gets_a_sentence(trick: tricks.Trick) -> None:
    data = trick.make(MATERIAL).get(MAIN)
    if isinstance(data, bytes) and answers.collect(data, RELEASED[UNIT]).unreadable:
        assert inspect(data, RELEASED).unreadable.endswith(".")


def known_answers() -> list[Path]:
    return sorted((ROOT / "grading" / "answers").glob("*/right_*.py"))


def test_no_known_right_answer_is_complained_about() -> None:
    """Some 150 right answers in many styles: none uses a name that it lacks, none lacks a name that it must define."""
    released = {}
    for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")):
        book = json.loads(path.read_text("utf-8"))
        released |= {place.name: place for place in answers.places(book)}
    wrong = {}
    for path in known_answers():
        seen = look(f"# exercise: {path.parent.name}\n{path.read_text('utf-8')}")
        lacks = look(released[path.parent.name].stub).defines - seen.defines
        if seen.error or seen.outside or lacks:
            wrong[f"{path.parent.name}/{path.name}"] = (seen, lacks)
    assert len(known_answers()) > 100 and wrong == {}


@pytest.mark.parametrize(
    ("source", "outside"),
    [
        ("def f(x):\n    return math.sqrt(np.sum(x)) + torch.tensor(len(x))", []),
        ("def f(x):\n    return helper(x)", ["helper"]),
        ("from lib import *\ndef f(x):\n    return helper(x)", []),
        ("import numpy.linalg as la, os.path\ndef f(x):\n    return la.norm(x), os.sep", []),
        ("def f(x):\n    return [y for y in x if (z := y)] + [z for q in x]", []),
        ("def f(x):\n    return [y for x in later]", ["later", "y"]),
        ("class A(Base):\n    size = 3\n    def f(self):\n        return size", ["Base", "size"]),
        ("def f():\n    global made\n    made = 1\ndef g():\n    return made", []),
        ("try:\n    tool\nexcept NameError:\n    tool = None", []),
        ("try:\n    gadget\nexcept (KeyError, Exception):\n    pass", []),
        ("try:\n    gadget\nexcept KeyError:\n    pass", ["gadget"]),
        ("def f(x: Tensor) -> Out:\n    return x", ["Out", "Tensor"]),
        ("from __future__ import annotations\ndef f(x: Tensor) -> Out:\n    return x", []),
        ("@cache\ndef f(x=DEFAULT):\n    return x", ["DEFAULT", "cache"]),
        ("%timeit f(1)\n!ls\ndef f(x):\n    return missing", ["missing"]),
        ("%%time\ndef f(x):\n    return missing", ["missing"]),
        ("lambda a, *b, c=d, **e: (a, b, c, e)", ["d"]),
        ("for i in range(3):\n    with open('x') as h, h as k:\n        print(i, h, k, __name__)", []),
        ("match x:\n    case [y, *z]:\n        print(y, z)", ["x"]),
        ("import asyncio\nawait asyncio.sleep(0)", []),
        ("print(_)", ["_"]),
        ("\ufeffx = 1\nprint(x)", []),
    ],
)
def test_names_that_a_cell_takes_from_others(source: str, outside: list[str]) -> None:
    assert look(source).outside == outside and not look(source).error


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("def f(:\n    pass", "line 1"),
        ("x = 1\n  y = 2", "line 2"),
        ("%%bash\nls", "cell magic %%bash"),
        ("x = '\0'", "can't be read"),
        ("(" * 5_000, "too many"),
        ("-" * 100_000 + "1", ""),
    ],
)
def test_what_can_not_be_run(source: str, why: str) -> None:
    assert look(source).error and why in look(source).error


def edited(change: Any) -> bytes:
    book = filled(MATERIAL, MATERIAL.right)
    change(book)
    return dump(book)


def test_each_kind_of_trouble() -> None:
    def set_source(source: str) -> Any:
        return lambda book: answer(book, "KVCache").update(source=source)

    cases = {
        "it can't be run: line 2": set_source("# exercise: KVCache\nclass KVCache(:"),
        "it does not define `KVCache`": set_source("# exercise: KVCache\nclass Cache:\n    pass"),
        "it uses `Base`": set_source("# exercise: KVCache\nclass KVCache(Base):\n    pass"),
        "at most 60,000 are read": set_source("# exercise: KVCache\nclass KVCache:\n    x = '" + "x" * 60_000 + "'"),
        "the cell magic %%script": set_source("%%script true\nclass KVCache:\n    pass"),
    }
    for words, change in cases.items():
        assert words in trouble(edited(change)), words
    assert trouble(edited(lambda book: None)) == ""


def test_states_and_notes() -> None:
    book = notebook("mine")
    report = inspect(json.dumps(book).encode(), RELEASED)
    assert [item.state for item in report.exercises] == ["answered", *["untouched"] * len(EXERCISES)]
    assert report.fine and not report.notes
    book["metadata"]["kvlab"]["release"] = "0123"
    by_id(book, "check-KVCache")["source"] = "pass"
    by_id(book, "answer-which_may_share")["source"] = "Because."
    report = inspect(json.dumps(book).encode(), RELEASED)
    assert "release 0123" in report.notes[0] and "check-KVCache was changed" in report.notes[1]
    assert report.exercises[-1].state == "answered"
    assert report.exercises[-1].notes == ["the cell lost its first line; it is known by its id"]


def test_a_written_answer_that_was_emptied() -> None:
    for text, state in ((" \n", "empty"), ("<!-- answer: which_may_share -->\n\n", "empty"), ("No.", "answered")):
        book = notebook("")
        by_id(book, "answer-which_may_share")["source"] = text
        assert inspect(dump(book), RELEASED).exercises[-1].state == state


def test_a_written_answer_is_found_by_its_first_line() -> None:
    """Colab and VS Code drop the metadata of cells."""
    book = notebook("")
    by_id(book, "answer-which_may_share")["source"] += "\nBecause."
    for cell in book["cells"]:
        cell["metadata"] = {}
    assert list(answers.collect(dump(book), RELEASED[UNIT]).answers) == ["which_may_share"]


def test_the_unit_is_known_by_its_exercises() -> None:
    assert inspect(hand_in("m", OTHER), RELEASED).unit == OTHER
    bare = notebook("m", OTHER)
    bare["metadata"] = {}
    for cell in bare["cells"]:
        cell["metadata"] = {}
    assert inspect(json.dumps(bare).encode(), RELEASED).unit == OTHER
    pasted = notebook("m", OTHER)
    pasted["metadata"] = copy.deepcopy(RELEASED[UNIT]["metadata"])
    report = inspect(json.dumps(pasted).encode(), RELEASED)
    assert report.unit == OTHER and f"its metadata says {UNIT}" in report.notes[0]
    visited = notebook("m", OTHER)
    visited["cells"].append(code_cell("# exercise: KVCache\nclass KVCache: pass"))
    assert inspect(json.dumps(visited).encode(), RELEASED).unit == OTHER
    nothing = {"nbformat": 4, "metadata": {"kvlab": {"unit": "../../x"}}, "cells": []}
    assert "no exercise" in inspect(json.dumps(nothing).encode(), RELEASED).unreadable


@pytest.fixture(params=["kvlab", "kvgrade"])
def check(request: pytest.FixtureRequest) -> Any:
    command = {"kvlab": kvlab, "kvgrade": kvgrade}[request.param]
    return lambda *arguments: command(["check", *map(str, arguments)])


def test_the_command(check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "hw (1).ipynb"
    good.write_bytes(edited(lambda book: None))
    assert check(good) == 0
    out = capsys.readouterr().out
    assert f"hw (1).ipynb: unit {UNIT}" in out and "It will be graded as it stands." in out
    empty = tmp_path / "empty.ipynb"
    empty.write_bytes(hand_in(""))
    assert check(empty) == 0 and "Nothing is answered in this file yet" in capsys.readouterr().out
    bad = tmp_path / "bad.ipynb"
    bad.write_bytes(edited(lambda book: answer(book, "KVCache").update(source="%%\x1b[2J\nx")))
    assert check(bad) == 1
    out = capsys.readouterr().out
    assert "\x1b" not in out and "1 of 5 need a look" in out
    (tmp_path / "no.ipynb").write_bytes(b"{")
    assert check(tmp_path / "no.ipynb") == 1
    assert check(tmp_path / "missing.ipynb") != 0
    assert "There is no file" in capsys.readouterr().err


def test_repair(check: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hw.ipynb"

    def shuffle(book: dict[str, Any]) -> None:
        book["cells"].append(code_cell("own = 1"))
        book["cells"] = [cell for cell in book["cells"] if "check-" not in str(cell["metadata"])]
        for cell in book["cells"]:
            cell["metadata"] = {}

    data = edited(shuffle)
    file.write_bytes(data)
    assert check(file, "--repair") == 0
    clean = tmp_path / "hw.repaired.ipynb"
    assert file.read_bytes() == data
    assert answers.collect(clean.read_bytes(), RELEASED[UNIT]).answers == answers.collect(data, RELEASED[UNIT]).answers
    assert [cell["id"] for cell in json.loads(clean.read_bytes())["cells"]] == [
        c["id"] for c in RELEASED[UNIT]["cells"]
    ]
    assert check(file, "--repair") == 0, "the same again changes nothing"
    clean.write_bytes(b"mine")
    assert check(file, "--repair") != 0 and clean.read_bytes() == b"mine"
    assert check(file, "--repair", "-o", file) != 0 and file.read_bytes() == data
    assert check(file, "-o", tmp_path / "x.ipynb") != 0
    assert check(file, "--repair", "-o", tmp_path / "deep" / "x.ipynb") == 0
    (tmp_path / "no.ipynb").write_bytes(b"{")
    assert check(tmp_path / "no.ipynb", "--repair") != 0
    assert "can't be repaired" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "hw.ipynb", "hw.repaired.ipynb", "no.ipynb"]
