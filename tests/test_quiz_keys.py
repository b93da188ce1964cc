"""Numeric keys of the quizzes are computed with kvlab.arithmetic, not copied."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvlab import claims, quiz
from kvlab.paths import data_dir

QUIZZES = sorted((data_dir() / "quizzes").glob("*.json"))
KEYED = [
    pytest.param(question, id=f"{path.stem}-{number}")
    for path in QUIZZES
    for number, question in enumerate(json.loads(path.read_text("utf-8")), start=1)
    if "key" in question
]


def number(text: str) -> float:
    found = re.search(r"\d[\d,]*(\.\d+)?", text)
    assert found, f"no number in {text!r}"
    return float(found[0].replace(",", ""))


def tolerance(text: str) -> float:
    """'about' allows the rounding that the text shows; a plain number is exact."""
    return 1e-3 if text.startswith("about") else 1e-12


@pytest.mark.parametrize("path", QUIZZES, ids=lambda path: path.stem)
def test_quiz_reads(path: Path) -> None:
    questions = quiz.read(path)
    for question in questions:
        feedback = [answer["feedback"] for answer in question["answers"]]
        assert len(set(feedback)) == len(feedback), "each option needs a feedback of its own"
        assert sum(answer["correct"] for answer in question["answers"]) == 1
        assert "$" not in json.dumps(question)
        assert not any(text.startswith(("Right", "No,", "Wrong")) for text in feedback), "kvlab.quiz says so already"


@pytest.mark.parametrize("path", QUIZZES, ids=lambda path: path.stem)
def test_the_right_option_cannot_be_told_by_its_length(path: Path) -> None:
    for question in quiz.read(path):
        right, *others = sorted((answer for answer in question["answers"]), key=lambda answer: not answer["correct"])
        assert len(right["answer"]) <= max(len(answer["answer"]) for answer in others)
        assert len(right["answer"]) >= min(len(answer["answer"]) for answer in others)


@pytest.mark.parametrize("question", KEYED)
def test_numeric_key_is_the_computed_one(question: dict[str, Any]) -> None:
    right = [answer["answer"] for answer in question["answers"] if answer["correct"]]
    assert right == [question["key"]["answer"]]
    value = claims.evaluate(question["key"])
    assert value == pytest.approx(number(right[0]), rel=tolerance(right[0]))


@pytest.mark.parametrize("question", KEYED)
def test_no_wrong_option_is_the_computed_value(question: dict[str, Any]) -> None:
    value = claims.evaluate(question["key"])
    for answer in question["answers"]:
        if not answer["correct"]:
            assert value != pytest.approx(number(answer["answer"]), rel=0.005), answer["answer"]


def test_unit_01_has_keys() -> None:
    assert sum("01_kv_cache" in param.id for param in KEYED) >= 3
