"""What only notebook 04 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT, require
from kvgrade import build
from kvgrade.units import read_unit
from notebook_runs import execute, outputs, shown

UNIT = ROOT / "grading" / "units" / "04_prompt_caching.py"
RELEASED = ROOT / "notebooks" / "04_prompt_caching.ipynb"
EXERCISES = [
    "cached_prefix_length",
    "request_cost",
    "break_even_requests",
    "openai_cached_tokens",
    "merge_usage",
]


def released() -> Any:
    for package in ("anthropic", "fastapi", "openai", "uvicorn"):
        require(package)
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
    assert "LIVE is False: both SDKs talk to the local server" in text


@pytest.mark.slow
def test_the_demonstrations_show_what_the_cards_promise(run_all: Any) -> None:
    text = shown(run_all)
    for pattern in (
        r"TTFT, miss .*n = 2.*\nTTFT, hit ",
        r"two JSON keys change places +read +0 +byte +\d+: .*'type\": ",
        r"the time, one second later +read +0 +byte ",
        r"two tools change places +read +0 +byte ",
        r"300 s later, mine +\d+ +[1-9]\d+ +0 ",
        r"0 s later, another key +\d+ +[1-9]\d+ +0 ",
        r"NotFoundError: model: cloud-sonnet-4-6",
        r"dollars from usage, .* by the rules",
        r"rows where sources disagree: claude-",
        r"US dollars per million tokens, read on \d{4}-\d\d-\d\d",
        r"added up \{",
    ):
        assert re.search(pattern, text), pattern


@pytest.mark.slow
def test_without_widgets_each_figure_and_table_is_there(run_all: Any) -> None:
    static = [out for out in outputs(run_all, "display_data") if "image/png" in out.data and "text/html" in out.data]
    starts = ("From how many requests", "Where do the two prompts", "Four requests share")
    questions = [re.sub("<.*?>", "", out.data["text/html"]) for out in static]
    assert [start for start in starts if any(q.startswith(start) for q in questions)] == list(starts)
    assert all("data:image/png" in out.data["text/html"] and "<table" in out.data["text/html"] for out in static)


@pytest.mark.slow
def test_every_fault_of_the_break_it_table_is_noticed(run_all: Any) -> None:
    rows = re.findall(r"^(\w+) +red: (.+)\n    \w.+\n    (.+)$", shown(run_all), re.M)
    assert len(rows) == 3 and [name for name, red, _ in rows if red == "none"] == ["none"]
    texts = {name: text for name, _, text in rows}
    assert texts["salt_forgotten"] == texts["none"], "the lesson: a fault that does not show in the text"


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("min(common, len(prompt) - 1)", "min(common, len(prompt))"))
    with pytest.raises(CellExecutionError, match="one has to be computed"):
        execute(spoilt, tmp_path, strict=True)


@pytest.mark.slow
def test_live_without_a_key_says_so_and_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    text = shown(execute(released(), tmp_path, LIVE=True))
    assert "neither ANTHROPIC_API_KEY nor OPENAI_API_KEY is set: both SDKs talk to the local server" in text


def test_live_is_off_and_only_one_cell_follows_it() -> None:
    cells = [cell.source for cell in read_unit(UNIT).cells if cell.cell_type == "code"]
    assert sum("LIVE = False" in source for source in cells) == 1
    assert sum("clients(LIVE, server)" in source for source in cells) == 1
    assert sum("both." in source for source in cells) == 1
