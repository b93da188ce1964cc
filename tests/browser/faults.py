"""Faults planted in a learner's notebook, and the test of test_seats.py that must notice each.

`python tests/browser/faults.py` prints the list.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Cells = list[dict[str, Any]]

# Cells of notebook 01 that its first exercise, first widget and quiz need; without the rest it runs in seconds.
KEPT = ("FAST = ", "import kvlab", "quiz.predict(", "positions_processed", "widgets.cache_stepper(", "quiz.show(")


@dataclass(frozen=True)
class Fault:
    """A fault: `source` is a cell that runs after the imports, `edit` changes the cells. `words`: in what is reported."""

    name: str
    test: str
    words: str
    source: str = ""
    edit: Callable[[Cells], None] = lambda cells: None


def _without_third_hint(cells: Cells) -> None:
    for cell in cells:
        if "Hint 3" in cell["source"]:
            before, rest = cell["source"].split("<details><summary>Hint 3</summary>")
            cell["source"] = before + rest.split("</details>", 1)[1]


KEYBOARD = "test_the_keyboard_moves_every_control_and_the_figure_follows"
EXERCISE = "test_an_exercise_is_diagnosed_then_right_and_validate_agrees"
LOOKS = "test_outputs_are_accessible_and_nothing_is_clipped"
QUIET = "test_the_page_asked_no_other_machine_and_logged_no_error"
RUN = "test_run_all_unsolved_leaves_no_error_and_draws_every_widget"
QUIZ = "test_a_quiz_question_answered_wrong_and_right_explains_both"
SHOW = "from IPython.display import HTML, Javascript, display\n"

FAULTS = (
    Fault(
        "dead_slider",
        KEYBOARD,
        "the figure did not change",
        "from kvlab.widgets import Explorer\nExplorer._refresh = lambda self, name: None",
    ),
    Fault(
        "figure_late",
        KEYBOARD,
        "still busy",
        "import kvlab.widgets.base as base\nbase.html.escape = lambda text, quote=True: text or 'Computing …'",
    ),
    Fault(
        "silent_check",
        EXERCISE,
        "not attempted yet",
        "from kvlab.check.panel import Panel\nPanel.show = lambda self, *args, **options: None",
    ),
    Fault(
        "generous_check",
        EXERCISE,
        "not right yet",
        "from kvlab.check.runner import Exercise\nExercise.equal = lambda self, *values: None",
    ),
    Fault("missing_hint", "test_hints_open_one_by_one_with_the_keyboard", "to have count", edit=_without_third_hint),
    Fault(
        "wrong_quiz_key",
        QUIZ,
        "expected to have text",
        "read = quiz.read\n"
        "def turned(path):\n"
        "    questions = read(path)\n"
        "    for option in questions[0]['answers'][:3]:\n"
        "        option['correct'] = not option['correct']\n"
        "    return questions\n"
        "quiz.read = turned",
    ),
    Fault("dead_keys", QUIZ, "assert", "quiz.prepare_page = widgets.base.prepare_page = lambda: None"),
    Fault(
        "external_request",
        QUIET,
        "example.org",
        SHOW + 'display(HTML(\'<img src="https://example.org/a.png" alt="">\'))',
    ),
    Fault("console_error", QUIET, "planted", SHOW + "display(Javascript('console.error(\"planted\")'))"),
    Fault("warning", RUN, "planted", "import warnings\nwarnings.warn('planted')"),
    Fault("error", RUN, "planted", "raise RuntimeError('planted')"),
    Fault("no_widget", RUN, "", "from kvlab.widgets import Explorer\nExplorer.show = lambda self: self"),
    Fault(
        "no_alternative_text",
        LOOKS,
        "image-alt",
        "import kvlab.widgets.base as base\nmake = base.image_html\n"
        "base.image_html = lambda picture, alt: make(picture, alt).replace('alt=', 'data-alt=')",
    ),
    Fault(
        "pale_text", LOOKS, "color-contrast", SHOW + "display(HTML('<p style=\"background:#fff;color:#ccc\">pale</p>'))"
    ),
    Fault(
        "clipped_table",
        LOOKS,
        "TABLE",
        SHOW + 'display(HTML(\'<div style="overflow:hidden"><table style="width:4000px"><tr><td>a</table></div>\'))',
    ),
)
NONE = Fault("none", "", "")


def plant(fault: Fault, released: Path, target: Path) -> None:
    """Write a short copy of notebook 01 with this fault."""
    notebook = json.loads(released.read_text(encoding="utf-8"))
    kept: Cells = []
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).replace("FAST = False", "FAST = True")
        if cell["cell_type"] == "markdown" or any(part in cell["source"] for part in KEPT):
            kept.append(cell)
        if "import kvlab" in cell["source"] and cell["cell_type"] == "code" and fault.source:
            kept.append({**cell, "id": "planted", "metadata": {}, "source": fault.source})
    fault.edit(kept)
    notebook["cells"] = kept
    target.write_text(json.dumps(notebook), encoding="utf-8")


if __name__ == "__main__":
    for fault in FAULTS:
        print(f"{fault.name:20} {fault.test}: {fault.words}")
