"""What only notebook 08 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from kvlab import claims, real_tokenizers, widgets
from notebook_runs import execute, outputs, shown

UNIT = ROOT / "grading" / "units" / "08_end_to_end.py"
RELEASED = ROOT / "notebooks" / "08_end_to_end.ipynb"
EXERCISES = [
    "rms_norm",
    "swiglu",
    "apply_rope",
    "transformer_block",
    "stream_text",
    "predict_latency",
    "max_concurrent",
]


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


@pytest.mark.slow
def test_the_demonstrations_show_what_the_cards_promise(run_all: Any) -> None:
    text = shown(run_all)
    for pattern in (
        r"^Llama 3 +8 +12 ",
        r"^100342 +'ати'$",
        r"All \d+ tensors agree\.",
        r"primer \(this course\): shape .*Llama 3 8B: shape",
        r"^top-p 0\.9 keeps 2: ",
        r"^ +1,024 +30 ms +47 ms +156%$",
        r"^published: +495 of at most +770 tokens/s",
        r"^24\.19  .*: 80 against 141\.1 GB, lower bound$",
        r"with scales and a wide table: 5\.73 GB",
        r"^tpot: at best about",
    ):
        assert re.search(pattern, text, re.M), pattern
    assert all(real_tokenizers.KNOWN[name].title in text for name in real_tokenizers.KNOWN if name != "tekken")


@pytest.mark.slow
def test_without_widgets_each_figure_and_table_is_there(run_all: Any) -> None:
    static = [out.data for out in outputs(run_all, "display_data") if "text/html" in out.data]
    for question in ("What becomes of a text", "The model has a mistake", "How fast can this model answer"):
        (data,) = [data for data in static if question in data["text/html"]]
        assert "image/png" in data and "<table" in data["text/html"]


@pytest.mark.slow
def test_every_fault_of_the_break_it_table_is_noticed(run_all: Any) -> None:
    rows = re.findall(r"^(\w+) +\d+ of \d+   (.+?)  +(yes|no)$", shown(run_all), re.M)
    assert [name for name, _, _ in rows] == list(widgets.TRACE_FAULTS)
    assert [name for name, first, _ in rows if first == "none"] == ["none"]
    texts = {name: equal for name, _, equal in rows}
    assert texts["position_off_by_one"] == "yes", "the lesson: a fault that does not show in the text"


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("opened = opened * opened.sigmoid()", "opened = opened.sigmoid()"))
    with pytest.raises(CellExecutionError, match="gate and up are multiplied"):
        execute(spoilt, tmp_path, strict=True)


def test_the_figures_beyond_the_hardware_are_those_of_the_card() -> None:
    found = {row["id"] for row in claims.beyond_hardware()}
    assert found >= {"24.01", "24.02", "24.03", "24.19"}
    assert not found & {"24.06", "24.08", "24.10"}, "slow is possible"
