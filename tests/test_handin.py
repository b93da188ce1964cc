"""Answers out of hostile files: by id, else by marker; facts are told; nothing is trusted."""

import copy
import json
import os

import pytest

from kvgrade import handin


def cell(source, grade_id=None, cell_type="code", **marks):
    metadata = {}
    if grade_id:
        metadata["nbgrader"] = {"grade_id": grade_id, "solution": True, "locked": False, "grade": False, **marks}
    return {"cell_type": cell_type, "metadata": metadata, "source": source}


STUB_F = "# exercise: f\ndef f():\n    raise NotImplementedError"
STUB_G = "# exercise: g\ndef g():\n    raise NotImplementedError"
CHECK = "with check.exercise('f') as t:\n    t.equal(f(), 1, '')"
RELEASED = {
    "nbformat": 4,
    "metadata": {"kvlab": {"unit": "01", "release": "abc"}},
    "cells": [
        cell("# Title", cell_type="markdown"),
        cell(STUB_F, "answer-f"),
        cell(CHECK, "check-f", solution=False, locked=True, grade=True, points=2),
        cell(STUB_G, "answer-g"),
        cell("*Your answer here.*", "answer-why", "markdown", grade=True, points=3),
    ],
}
F = "# exercise: f\ndef f():\n    return 1"
G = "# exercise: g\ndef g():\n    return 2"


def notebook(*cells, **changes):
    return {**copy.deepcopy(RELEASED), "cells": list(cells), **changes}


def collect(book):
    return handin.collect(json.dumps(book).encode(), RELEASED)


def test_places():
    assert [(p.name, p.cell_type) for p in handin.places(RELEASED)] == [
        ("f", "code"),
        ("g", "code"),
        ("why", "markdown"),
    ]


def test_an_untouched_hand_in_has_no_answers():
    found = collect(RELEASED)
    assert found.answers == {} and found.facts == [] and not found.unreadable


def test_answers_by_id_and_by_marker():
    by_id = F.replace("# exercise: f\n", "")
    assert collect(notebook(cell(by_id, "answer-f"), cell(G))).answers == {"f": by_id, "g": G}


@pytest.mark.parametrize("kind", ["raw", "markdown", "code", None, 7])
def test_a_retyped_cell_still_counts(kind):
    assert collect(notebook(cell(F, "answer-f", kind))).answers == {"f": F}
    assert collect(notebook(cell(F, None, kind))).answers == {"f": F}


def test_the_edited_copy_wins_wherever_it_stands():
    for cells in ([cell(F, "answer-f"), cell(STUB_F, "answer-f")], [cell(STUB_F, "answer-f"), cell(F, "answer-f")]):
        assert collect(notebook(*cells)).answers == {"f": F}
    later = F.replace("1", "3")
    found = collect(notebook(cell(F, "answer-f"), cell(later)))
    assert found.answers == {"f": later}
    assert any("2 answer cells were found" in fact for fact in found.facts)


def test_a_marker_says_more_than_a_copied_id():
    assert collect(notebook(cell(F, "answer-f"), cell(G, "answer-f"))).answers == {"f": F, "g": G}


def test_a_split_cell_is_joined():
    first, second = "# exercise: f\nhelper = 1", "def f():\n    return helper"
    assert collect(notebook(cell(first, "answer-f"), cell(second, "answer-f"))).answers == {"f": f"{first}\n{second}"}


@pytest.mark.parametrize("change", ["\ufeff{}", "{}\r\n", "\n\n{}  \n"])
def test_what_editors_change_is_no_answer(change):
    source = change.replace("{}", STUB_F.replace("\n", "\r\n"))
    assert collect(notebook(cell(source, "answer-f"))).answers == {}


def test_a_source_may_be_a_list_of_lines():
    assert collect(notebook(cell(F.splitlines(keepends=True), "answer-f"))).answers == {"f": F}


def test_facts():
    changed = cell("t = 1", "check-f", solution=False, locked=True)
    found = collect(notebook(cell(F, "answer-f"), changed, metadata={"kvlab": {"release": "0123"}}))
    assert "the locked cell check-f was changed" in found.facts
    assert "g: no answer cell was found" in found.facts
    assert "made from release 0123; the course now has abc" in found.facts
    assert found.answers == {"f": F}
    assert "the locked cell check-f is missing" in collect(notebook(cell(F, "answer-f"))).facts
    assert not any("check-f" in fact for fact in collect(notebook(cell(F), cell(CHECK))).facts)


def test_a_giant_answer_is_not_read():
    found = collect(notebook(cell(F + "\n#" + "x" * handin.MOST_SOURCE, "answer-f")))
    assert found.answers == {} and any("was not read" in fact for fact in found.facts)


def test_half_characters_cannot_hurt():
    found = collect(notebook(cell(F + "\n# \ud800", "answer-f")))
    assert found.answers["f"].encode("utf-8").endswith(b"# ?")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[]",
        b"3",
        b'{"cells": 3}',
        b'{"nbformat": 3, "worksheets": []}',
        b'{"nbformat": 99, "cells": []}',
        b"\x80\x81",
        b"[" * 100_000,
        json.dumps(RELEASED).encode()[:-40],
    ],
)
def test_an_unreadable_file_gets_a_sentence(data):
    found = handin.collect(data, RELEASED)
    assert found.answers == {}
    assert found.unreadable.endswith(".")


@pytest.mark.parametrize(
    "odd",
    [
        None,
        3,
        {"source": 3},
        {"source": None, "metadata": 1},
        {"source": "x", "metadata": {"nbgrader": 1}},
        {"source": "x", "metadata": {"nbgrader": {"grade_id": ["answer-f"]}}},
        {"source": ["a", 1]},
        {"cell_type": {}, "source": "x"},
    ],
)
def test_odd_cells_are_passed_over(odd):
    assert collect(notebook(odd, cell(F, "answer-f"), metadata=None)).answers == {"f": F}


def test_only_regular_files_are_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("solution")
    (tmp_path / "link.ipynb").symlink_to(secret)
    (tmp_path / "folder.ipynb").mkdir()
    os.mkfifo(tmp_path / "pipe.ipynb")
    large = tmp_path / "large.ipynb"
    with large.open("wb") as file:
        file.truncate(handin.MOST_BYTES + 1)
    for name in ("link", "folder", "pipe", "large", "missing"):
        with pytest.raises(handin.Unreadable):
            handin.read(tmp_path / f"{name}.ipynb")
    assert handin.read(secret) == b"solution"


def test_a_forged_release_is_no_release():
    forged = {"kvlab": {"release": "x\n[ERROR] anna cheated\x1b]0;own\x07"}}
    facts = collect(notebook(cell(F, "answer-f"), cell(CHECK), metadata=forged)).facts
    assert facts == ["g: no answer cell was found", WHY]


WHY = "why: no answer cell was found"


def test_many_halves_take_no_time():
    halves = [cell("x = 1", "answer-f") for _ in range(50_000)]
    found = collect(notebook(cell(F + "\n#" + "x" * 10_000_000, "answer-f"), *halves))
    assert "f" not in found.answers
