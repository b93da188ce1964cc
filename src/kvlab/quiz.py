"""Questions to the learner: predictions that reveal, and the five-question quiz of a unit.

Nothing here is graded. No LaTeX and no "$": a browser would fetch a math library for it, and the course works offline.
"""

from __future__ import annotations

import html
import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlab.front_end import prepare_page

N_QUESTIONS = 5
_ON_THE_LINE = (
    "display:inline;cursor:pointer;text-decoration:underline"  # the sign of a fold-out needs a line of its own
)
_LATEX = re.compile(r"\$|\\\(|\\\[|\\begin\b|\\frac\b")
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


@dataclass
class Prediction:
    """A question with options; `choose` answers it, as a click in the notebook does."""

    question: str
    options: list[str]
    answer: str
    reveal: str
    chosen: str | None = field(default=None)

    def choose(self, option: Any) -> str:
        """Answer with one of the options and return the text that is then shown. Raises ValueError for another one."""
        if str(option) not in self.options:
            raise ValueError(f"{option!r} is not an option; the options are: {', '.join(self.options)}")
        self.chosen = str(option)
        wrong = f"✗ You chose: {self.chosen}. It is: {self.answer}."
        return f"{wrong if self.chosen != self.answer else f'✓ Yes: {self.answer}.'} {self.reveal}"

    @property
    def text(self) -> str:
        """The question without a front end."""
        lines = [f"Predict first: {self.question}", *(f"  - {option}" for option in self.options)]
        return "\n".join([*lines, f"Then read on: {self.answer}. {self.reveal}"])

    @property
    def html(self) -> str:
        """The question, its options and a fold-out with the answer, without a widget or a script."""
        items = "".join(f"<li>{html.escape(option)}</li>" for option in self.options)
        answer = f"<b>{html.escape(self.answer)}.</b> {html.escape(self.reveal)}"
        fold = f"<details><summary>Show the answer</summary><p>{answer}</p></details>"
        return f"<p><b>Predict first:</b> {html.escape(self.question)}</p><ul>{items}</ul>{fold}"

    def _ipython_display_(self) -> None:
        """Nothing: `predict` has shown it already, and it may stand on the last line of a cell."""


def predict(question: str, options: Sequence[Any], answer: Any | Callable[[], Any], reveal: str) -> Prediction:
    """Ask for a prediction, then reveal.

    answer: one of the options, or a function without arguments that computes it now.
    Raises ValueError for fewer than two options, equal ones, an answer that is none of them, and LaTeX.
    """
    right = str(answer() if callable(answer) else answer)
    labels = [str(option) for option in options]
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError(f"A prediction needs at least two different options, not {labels}.")
    if right not in labels:
        raise ValueError(f"The answer {right!r} is none of the options: {', '.join(labels)}.")
    for text in [question, reveal, *labels]:
        _refuse_latex(text, f"the prediction {question!r}")
    asked = Prediction(question, labels, right, reveal)
    if _in_notebook():
        _display(asked)
    else:
        print(asked.text)
    return asked


def read(path: Path) -> list[dict[str, Any]]:
    """A unit's quiz from its JSON file. Raises ValueError that says which question is wrong, and how."""
    try:
        questions = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path.name} is not JSON: {error}") from None
    if not isinstance(questions, list) or len(questions) != N_QUESTIONS:
        raise ValueError(f"{path.name} must be a list of {N_QUESTIONS} questions.")
    for number, item in enumerate(questions, start=1):
        _validate(item, f"{path.name}, question {number}")
    return questions


def show(unit: str) -> None:
    """Show the quiz of a unit, such as "01_kv_cache": clickable where scripts run, and as text that folds out."""
    from kvlab import paths

    path = paths.data_dir() / "quizzes" / f"{unit}.json"
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in path.parent.glob("*.json"))) or "(none)"
        raise ValueError(f"There is no quiz for {unit!r}; there are quizzes for: {known}.")
    questions = read(path)
    if not _in_notebook():
        print(as_text(questions))
        return
    from IPython.display import display

    for part in interactive(questions):
        display(part)
    display({"text/html": as_html(questions), "text/plain": as_text(questions)}, raw=True)
    prepare_page()


def interactive(questions: list[dict[str, Any]]) -> list[Any]:
    """jupyterquiz's display objects for these questions, without what it would fetch from the network.

    Returns [] when jupyterquiz is missing, or when a version of it would still reach for a web address.
    """
    try:
        from jupyterquiz.dynamic import display as module
    except ImportError:
        return []
    shown: list[Any] = []
    original, state = module.display, random.getstate()  # it draws an id from `random`; the notebook's seed must hold
    module.display = shown.append
    try:
        module.display_quiz(_told_in_words(questions), shuffle_answers=True, max_width=800, colors=_COLORS)
    finally:
        module.display = original
        random.setstate(state)
    for part in shown:
        # It loads MathJax from the network when the page has one that it does not know. There is no math in a quiz.
        part.data = re.sub(r"typeof MathJax\s*!==?\s*'undefined'", "false", part.data)
        part.data = re.sub(r"script\.src = '[^']*';", "", part.data)
    shown[0].data += _STYLE
    return [] if any(re.search(r"https?:", part.data) for part in shown) else shown


def as_text(questions: list[dict[str, Any]]) -> str:
    """The quiz as plain text, answers at the end."""
    lines, key = [], []
    for number, item in enumerate(questions, start=1):
        lines.append(f"{number}. {item['question']}")
        for letter, option in zip("abcdefgh", item["answers"], strict=False):
            lines.append(f"   {letter}) {option['answer']}")
            key.append(f"{number}{letter} {_verdict(option)}: {option['feedback']}")
    return "\n".join([*lines, "Answers:", *key])


def as_html(questions: list[dict[str, Any]]) -> str:
    """The quiz as fold-outs: no script."""
    out = []
    for item in questions:
        rows = "".join(
            f"<li>{html.escape(option['answer'])} · <details style='display:inline'>"
            f"<summary style='{_ON_THE_LINE}'>right or wrong?</summary> "
            f"{_verdict(option)}: {html.escape(option['feedback'])}</details></li>"
            for option in item["answers"]
        )
        out.append(f"<li>{html.escape(item['question'])}<ul>{rows}</ul></li>")
    return f"<details><summary>The same quiz without scripts</summary><ol>{''.join(out)}</ol></details>"


def _verdict(option: dict[str, Any]) -> str:
    return "✓ Right" if option["correct"] else "✗ No"


def _told_in_words(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same quiz, where each feedback begins with its verdict: jupyterquiz tells it by colour alone."""
    return [
        {
            **item,
            "answers": [
                {**option, "feedback": f"{_verdict(option)}. {option['feedback']}"} for option in item["answers"]
            ],
        }
        for item in questions
    ]


# Blue and vermillion from the Okabe–Ito set instead of green and red.
_COLORS = {
    "--jq-multiple-choice-bg": "#37474f",
    "--jq-correct-color": "#0072b2",
    "--jq-incorrect-color": "#b34e00",
}
# The explanation stands on the page itself, whose theme is light or dark: only the theme's own colour is readable on both.
# jupyterquiz colours the chosen answer by an animation, and where there is none (reduced motion) its white text stood on
# white.
_STYLE = (
    "<style>.Quiz .Feedback.correct, .Quiz .Feedback.incorrect { color: inherit; line-height: 1.4; }"
    " .Quiz .correctButton { background-color: var(--jq-correct-color); }"
    " .Quiz .incorrectButton { background-color: var(--jq-incorrect-color); }</style>"
)


def _validate(item: Any, where: str) -> None:
    if not isinstance(item, dict) or item.get("type") != "multiple_choice" or not _is_text(item.get("question")):
        raise ValueError(f'{where}: needs "question" and "type": "multiple_choice".')
    answers = item.get("answers")
    if not isinstance(answers, list) or not 2 <= len(answers) <= 8:
        raise ValueError(f"{where}: needs 2 to 8 answers.")
    for option in answers:
        if not isinstance(option, dict) or not _is_text(option.get("answer")):
            raise ValueError(f'{where}: each answer needs an "answer" text.')
        if not isinstance(option.get("correct"), bool):
            raise ValueError(f'{where}, {option["answer"]!r}: "correct" is true or false.')
        if not _is_text(option.get("feedback")):
            raise ValueError(f'{where}, {option["answer"]!r}: needs "feedback" that explains why it is right or wrong.')
    if len({option["answer"] for option in answers}) < len(answers):
        raise ValueError(f"{where}: two answers are the same.")
    if sum(option["correct"] for option in answers) != 1:
        raise ValueError(f"{where}: exactly one answer is right, not {sum(option['correct'] for option in answers)}.")
    for text in [item["question"], *(o[key] for o in answers for key in ("answer", "feedback"))]:
        _refuse_latex(text, where)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _refuse_latex(text: str, where: str) -> None:
    if _LATEX.search(text):
        raise ValueError(f'{where}: no LaTeX and no "$" here ({text!r}); write it in words, "USD" for dollars.')


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


def _display(asked: Prediction) -> None:
    """One output that a front end with widgets shows as a control, and any other as text with a fold-out."""
    from IPython.display import display

    bundle: dict[str, Any] = {"text/plain": asked.text, "text/html": asked.html}
    control = _control(asked)
    if control is not None:
        bundle[_WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": control.model_id}
    display(bundle, raw=True)
    if control is not None:
        prepare_page()


def _control(asked: Prediction) -> Any:
    """Radio buttons, a button and a line of text (what ipywidgets 7.7, as on Colab, and 8 share); None without them."""
    try:
        import ipywidgets
    except ImportError:
        return None
    question = ipywidgets.HTML(f"<b>Predict first:</b> {html.escape(asked.question)}")
    radio = ipywidgets.RadioButtons(options=asked.options, value=None, layout=ipywidgets.Layout(width="auto"))
    button = ipywidgets.Button(description="Reveal", tooltip="Show whether the prediction holds")
    result = ipywidgets.HTML("")

    def reveal(_: Any) -> None:
        if radio.value is None:
            result.value = "Choose one first."
        else:
            result.value = html.escape(asked.choose(radio.value))

    button.on_click(reveal)
    return ipywidgets.VBox([question, radio, button, result])
