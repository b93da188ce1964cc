"""What only notebook 02 shows and notices; what holds for every notebook is in test_notebooks.py. FAST, or it would take long."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from helpers import ROOT
from kvgrade import build
from notebook_runs import execute, outputs, shown

UNIT = ROOT / "grading" / "units" / "02_prefill_decode.py"
RELEASED = ROOT / "notebooks" / "02_prefill_decode.ipynb"
EXERCISES = ["latency_metrics", "roofline_seconds", "chunked_prefill", "plan_step"]


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
    assert "TTFT" in text and "ridge point" in text and "useful pos." in text


@pytest.mark.slow
def test_without_widgets_the_timeline_and_its_table_are_there(run_all: Any) -> None:
    static = [out for out in outputs(run_all, "display_data") if "image/png" in out.data and "text/html" in out.data]
    pages = [out.data["text/html"] for out in static]
    (page,) = [page for page in pages if "Who computes what" in page]
    assert "data:image/png" in page and "<table" in page and "alt=" in page


@pytest.mark.slow
def test_the_planted_mask_spoils_chunks_and_only_chunks(run_all: Any) -> None:
    texts = dict(
        ((planted.strip(), policy), text)
        for planted, policy, text in re.findall(
            r"^(nothing planted|top_left_mask) +(continuous|chunked) +(.+)$", shown(run_all), re.M
        )
    )
    assert len(texts) == 4
    assert texts["nothing planted", "continuous"] == texts["nothing planted", "chunked"]
    assert texts["top_left_mask", "continuous"] == texts["nothing planted", "continuous"]
    assert texts["top_left_mask", "chunked"] != texts["nothing planted", "chunked"]


@pytest.mark.slow
def test_static_batching_pads_and_the_others_do_not(run_all: Any) -> None:
    rows = re.findall(r"^(static|continuous|chunked) +(\d+) +(\d+) +(\d+) +(\d+)%", shown(run_all), re.M)
    counted = {policy: [int(number) for number in numbers] for policy, *numbers in rows}
    assert set(counted) == {"static", "continuous", "chunked"}
    for policy in ("continuous", "chunked"):
        assert counted[policy][2:] == [0, 100]
        assert counted["static"][1] - counted["static"][2] == counted[policy][1], "the same work, and padding on top"
        assert counted[policy][0] < counted["static"][0]


@pytest.mark.slow
def test_a_spoilt_solution_stops_a_strict_run(tmp_path: Path) -> None:
    spoilt = solved(("return logits[-1]", "return logits[0]"))
    with pytest.raises(CellExecutionError, match="last row of the last call"):
        execute(spoilt, tmp_path, strict=True)
