"""Predictions and quizzes: what a learner sees with and without a front end, offline, and what is refused."""

import copy
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from kvlab import quiz

QUESTION = {
    "question": "How many positions does a step with a cache compute?",
    "type": "multiple_choice",
    "answers": [
        {"answer": "one", "correct": True, "feedback": "Only the new token."},
        {"answer": "all", "correct": False, "feedback": "That is the loop without a cache."},
    ],
}


def write(folder: Path, questions: object) -> Path:
    path = folder / "90_tiny.json"
    path.write_text(json.dumps(questions), encoding="utf-8")
    return path


def ask(**changes: object) -> quiz.Prediction:
    settings: dict = {"question": "How many?", "options": ["three", "four"], "answer": "four", "reveal": "The fourth."}
    return quiz.predict(**{**settings, **changes})


def test_prediction_reveals_after_either_choice() -> None:
    asked = ask()
    assert asked.chosen is None
    right, wrong = asked.choose("four"), asked.choose("three")
    assert right.startswith("✓") and "four" in right and "The fourth." in right
    assert wrong.startswith("✗") and "three" in wrong and "four" in wrong and "The fourth." in wrong
    assert asked.chosen == "three"


def test_prediction_computes_its_answer_and_takes_numbers() -> None:
    asked = ask(options=[3, 4], answer=lambda: 2 + 2)
    assert asked.answer == "4" and asked.choose(4).startswith("✓")


@pytest.mark.parametrize(
    "changes",
    [
        {"answer": "five"},
        {"options": ["four"]},
        {"options": ["four", "four"]},
        {"answer": lambda: 7},
        {"question": "Is $x$ more?"},
        {"reveal": r"\(x\)"},
    ],
)
def test_prediction_refuses(changes: dict) -> None:
    with pytest.raises(ValueError, match=r"option|LaTeX"):
        ask(**changes)


def test_prediction_refuses_a_choice_that_is_no_option() -> None:
    with pytest.raises(ValueError, match="not an option"):
        ask().choose("five")


def test_prediction_prints_question_options_and_reveal_without_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    ask()
    out = capsys.readouterr().out
    assert all(part in out for part in ("How many?", "three", "four", "The fourth."))


def test_prediction_html_hides_the_answer_in_a_foldout_and_escapes() -> None:
    asked = ask(question="Is a < b?")
    before, fold = asked.html.split("<details>")
    assert "a &lt; b" in before and "The fourth." not in before and "The fourth." in fold


def test_control_reveals_on_click_and_asks_for_a_choice_first() -> None:
    asked = ask()
    _, radio, button, result = quiz._control(asked).children
    button.click()
    assert asked.chosen is None and "Choose" in result.value
    radio.value = "three"
    assert asked.chosen is None, "moving through the options must not reveal yet"
    button.click()
    assert asked.chosen == "three" and "The fourth." in result.value


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("answers", 1, "correct"), True, "exactly one"),
        (("answers", 0, "correct"), False, "exactly one"),
        (("answers", 0, "correct"), "yes", "true or false"),
        (("answers", 1, "feedback"), " ", "feedback"),
        (("answers", 1, "answer"), "one", "the same"),
        (("answers", 1, "feedback"), "it costs $5", "LaTeX"),
        (("question",), r"what is \frac{a}{b}", "LaTeX"),
        (("type",), "numeric", "multiple_choice"),
        (("answers",), [QUESTION["answers"][0]], "2 to 8"),
    ],
)
def test_quiz_refuses(tmp_path: Path, path: tuple, value: object, message: str) -> None:
    questions = [copy.deepcopy(QUESTION) for _ in range(5)]
    assert quiz.read(write(tmp_path, questions)) == questions
    spot = questions[2]
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    with pytest.raises(ValueError, match=message) as caught:
        quiz.read(write(tmp_path, questions))
    assert "question 3" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", "[1, 2, 3, 4, 5]", "[]", "nonsense"])
def test_quiz_refuses_other_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"x\.json"):
        quiz.read(path)


def test_interactive_quiz_fetches_nothing_and_leaves_the_seed_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    parts = quiz.interactive([QUESTION] * 5)
    assert random.random() == expected
    assert len(parts) == 2, "jupyterquiz shows a container and a script"
    text = "".join(part.data for part in parts)
    assert "How many positions" in text and "Only the new token." in text
    assert not re.search(r"https?:|//cdn|mathjax@", text)
    assert "typeof MathJax" not in text
    assert "Right. Only the new token." in text and "No. That is the loop" in text, "told in words, not by colour"


def test_static_forms_hold_every_answer_and_its_explanation() -> None:
    summary = quiz.as_html([QUESTION]).split("<ol>")[1].split("<summary ")[1]
    assert "display:inline" in summary.split(">")[0] and summary.split(">")[1].startswith("right or wrong?")
    for text in (quiz.as_text([QUESTION] * 5), quiz.as_html([QUESTION] * 5)):
        for option in QUESTION["answers"]:
            assert text.count(option["answer"]) >= 5 and text.count(option["feedback"]) == 5


def test_show_names_the_quizzes_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from kvlab import paths

    (tmp_path / "quizzes").mkdir()
    write(tmp_path / "quizzes", [QUESTION] * 5)
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    with pytest.raises(ValueError, match="90_tiny"):
        quiz.show("99_none")


def test_show_prints_without_a_notebook(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvlab import paths

    (tmp_path / "quizzes").mkdir()
    write(tmp_path / "quizzes", [QUESTION] * 5)
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    quiz.show("90_tiny")
    assert "That is the loop without a cache." in capsys.readouterr().out


@pytest.mark.slow
def test_in_a_kernel_each_question_leaves_a_control_and_a_static_form(tmp_path: Path) -> None:
    (tmp_path / "quizzes").mkdir()
    write(tmp_path / "quizzes", [QUESTION] * 5)
    notebook = nbformat.v4.new_notebook()
    notebook.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
    notebook.cells = [
        nbformat.v4.new_code_cell("""
from pathlib import Path
from kvlab import paths, quiz
paths.data_dir = Path
quiz.predict("How many?", ["three", "four"], "four", "The fourth.")"""),
        nbformat.v4.new_code_cell('quiz.show("90_tiny")'),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    asked, shown = (cell.outputs for cell in notebook.cells)
    assert [output.output_type for output in asked] == ["display_data"] * 2, "no second display of the returned object"
    assert sorted(asked[1].data) == ["application/javascript", "text/plain"], "keys and names for the controls"
    assert set(asked[0].data) == {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"}
    assert "The fourth." in asked[0].data["text/html"]
    kinds = [sorted(output.data) for output in shown]
    page, script = ["text/html", "text/plain"], ["application/javascript", "text/plain"]
    assert kinds == [page, script, page, script]
    assert not re.search(r"https?:", json.dumps(shown))


def test_import_is_light() -> None:
    code = "import sys, kvlab.quiz; sys.exit(bool({'torch', 'ipywidgets', 'matplotlib'} & set(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0
