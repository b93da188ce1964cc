"""What only notebook 06 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from kvlab import widgets
from notebook_runs import execute, outputs, shown

UNIT = ROOT / "grading" / "units" / "06_optimizations.py"
RELEASED = ROOT / "notebooks" / "06_optimizations.ipynb"
EXERCISES = ["verify_draft", "expected_tokens", "quantize_rows", "pack_int4", "online_softmax_attention"]


def released() -> Any:
    return nbformat.read(RELEASED, as_version=4)


def solved(edit: tuple[str, str] = ("", "")) -> Any:
    text = build.solved_notebook(UNIT)
    assert edit[0] in text
    return nbformat.reads(text.replace(*edit) if edit[0] else text, as_version=4)


@pytest.fixture(scope="module")
def run_all(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The released notebook, nothing solved, Run All."""
    return execute(released(), tmp_path_factory.mktemp("unsolved"))


@pytest.mark.slow
def test_run_all_unsolved_has_no_error_and_no_noise(run_all: Any) -> None:
    assert outputs(run_all, "error") == []
    assert [out.text for out in outputs(run_all, "stream") if out.name == "stderr"] == []
    text = shown(run_all)
    assert [name for name in EXERCISES if f"{name}: not attempted yet" in text] == EXERCISES
    assert "tokens/round" in text and "divergence (nats)" in text and "RECORDED 20" in text


@pytest.mark.slow
def test_without_widgets_each_figure_and_table_is_there(run_all: Any) -> None:
    static = [out for out in outputs(run_all, "display_data") if "image/png" in out.data and "text/html" in out.data]
    questions = [re.sub("<.*?>", "", out.data["text/html"]).split("?")[0] for out in static]
    for start in (
        "Speculative decoding has",
        "How many tokens should",
        "How large is the error",
        "How large is the largest",
    ):
        assert any(question.startswith(start) for question in questions), start
    assert all("data:image/png" in out.data["text/html"] and "<table" in out.data["text/html"] for out in static)


@pytest.mark.slow
def test_every_fault_of_the_break_it_table_is_noticed(run_all: Any) -> None:
    rows = re.findall(r"^(\w+) +red: (.+)\n    \w.+\n    text: (.+)$", shown(run_all), re.M)
    assert [name for name, _, _ in rows] == list(widgets.DRAFT_FAULTS)
    assert [name for name, red, _ in rows if red == "none"] == ["none"]
    texts = {name: text for name, _, text in rows}
    assert texts["resampled_from_target"] == texts["none"], "the lesson: a fault that does not show in the text"


@pytest.mark.slow
def test_honest_rules_are_kept_and_wrong_ones_rejected(run_all: Any) -> None:
    text = shown(run_all)
    rows = re.findall(r"^(.+?) +([\d.]+|inf) +(\d+) +(\S+)$", text[text.index("continuations each") :], re.M)[:8]
    p_values = {name.strip(): float(p) for name, _, _, p in rows}
    wrong = {name for name in p_values if name.startswith("wrong: ")}
    assert len(p_values) == 8 and len(wrong) == 4
    assert all((p < 1e-6) == (name in wrong) for name, p in p_values.items())


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("draw >= target_probs[row, token] / draft_probs[row, token]", "draw >= target_probs[row, token]"))
    with pytest.raises(CellExecutionError, match="below p / q"):
        execute(spoilt, tmp_path, strict=True)
