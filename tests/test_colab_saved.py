"""A notebook that Colab has saved is handed in: what Colab adds and drops costs nobody an answer."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from helpers import ROOT
from kvgrade import handin
from kvgrade.units import find_units, read_unit

UNITS = [path for path in find_units() if read_unit(path).with_role("exercise")]
every_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
TEXT = "The causal mask hides what comes later, so nothing that was stored ever changes."


def released(unit: Path) -> Any:
    return json.loads((ROOT / "notebooks" / f"{unit.stem}.ipynb").read_text(encoding="utf-8"))


def right_answers(unit: Path) -> dict[str, str]:
    """A right answer to each exercise, from grading/answers/, and a text for each written question."""
    authored = read_unit(unit)
    found = {}
    for cell in authored.with_role("exercise"):
        path = sorted((ROOT / "grading" / "answers" / str(cell.name)).glob("right_*.py"))[0]
        found[str(cell.name)] = f"# exercise: {cell.name}\n{path.read_text(encoding='utf-8').strip()}"
    return found | {str(cell.name): TEXT for cell in authored.with_role("manual")}


def answered(unit: Path) -> Any:
    notebook, answers = released(unit), right_answers(unit)
    for cell in notebook["cells"]:
        marks = cell["metadata"].get("nbgrader", {})
        if marks.get("solution"):
            cell["source"] = answers[marks["grade_id"].removeprefix("answer-")].splitlines(keepends=True)
    return notebook


def as_colab_saves(notebook: Any) -> Any:
    """What a notebook looks like after a session on Colab. Sources: docs/colab.md, "What Colab changes in a file"."""
    saved = copy.deepcopy(notebook)
    saved["nbformat_minor"] = 0
    saved["metadata"] |= {
        "accelerator": "GPU",
        "colab": {"provenance": [], "gpuType": "T4", "include_colab_link": True},
        "widgets": {
            "application/vnd.jupyter.widget-state+json": {"0a1b": {"model_name": "IntSliderModel", "state": {}}}
        },
    }
    link = {"cell_type": "markdown", "metadata": {"id": "view-in-github"}, "source": ["<a href=…>Open In Colab</a>"]}
    for number, cell in enumerate(saved["cells"]):
        cell.pop("id", None)
        cell["metadata"] |= {"id": f"aB{number:010d}"}
        if cell["cell_type"] == "code":
            user = {"displayName": "Ada", "userId": "0123456789", "photoUrl": "https://example.org/ada.png"}
            run = {"status": "ok", "timestamp": 1760000000000, "user_tz": -120, "elapsed": 12, "user": user}
            cell["metadata"] |= {
                "colab": {"base_uri": "https://localhost:8080/"},
                "outputId": "f00d",
                "executionInfo": run,
            }
            cell["execution_count"] = number
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["right\n"]}]
    saved["cells"].insert(0, link)
    return saved


def collected(notebook: Any, unit: Path) -> handin.HandIn:
    return handin.collect(json.dumps(notebook, indent=2).encode(), released(unit))


@every_unit
def test_right_answers_arrive_whole(unit: Path) -> None:
    found = collected(as_colab_saves(answered(unit)), unit)
    assert not found.unreadable
    assert {name: text.strip() for name, text in found.answers.items()} == right_answers(unit)
    assert found.facts == []


@every_unit
def test_cells_that_colab_made_anew_are_known_by_their_first_line(unit: Path) -> None:
    """A cell that was cut and pasted, or split and typed again, has none of nbgrader's metadata."""
    saved = as_colab_saves(answered(unit))
    written = {f"answer-{cell.name}" for cell in read_unit(unit).with_role("manual")}
    for cell in saved["cells"]:
        if cell["metadata"].get("nbgrader", {}).get("grade_id") not in written:
            cell["metadata"].pop("nbgrader", None)
    found = collected(saved, unit)
    assert {name: text.strip() for name, text in found.answers.items()} == right_answers(unit)


@every_unit
def test_nobodys_name_or_picture_is_taken_along(unit: Path) -> None:
    found = collected(as_colab_saves(answered(unit)), unit)
    for word in ("Ada", "0123456789", "photoUrl"):
        assert word not in json.dumps([found.answers, found.facts])


@every_unit
def test_an_untouched_notebook_saved_by_colab_holds_no_answer(unit: Path) -> None:
    found = collected(as_colab_saves(released(unit)), unit)
    assert found.answers == {} and found.facts == []
