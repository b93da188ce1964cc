"""benchmarks/speculative.py at tiny sizes: it runs, and every row says what was measured. No time is judged."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from helpers import require

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    require("transformers")
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("speculative")


def test_it_prints_and_writes_every_row(script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    plan = script.Plan(script.PROMPTS[:1], 40, (1, 3), 1, ("readable",), documents=30)
    assert script.main(["--json", str(tmp_path / "r.json")], plan) == 0
    rows = json.loads((tmp_path / "r.json").read_text())["rows"]
    drafts = ("primer-draft", "4-gram table", "prompt look-up", "first 2 layers", "first 4 layers")
    assert [(row["draft"], row["k"]) for row in rows] == [
        ("plain", "-"),
        *((draft, k) for draft in drafts for k in ("1", "3", "1 to 3")),
    ]
    for row in rows[1:]:
        assert row["same_text"] == 1
        assert 1 <= row["tokens_per_round"] <= 4
        assert (row["formula"] is None) == (row["cost_ratio"] is None)
        assert row["gain"]["low"] <= row["gain"]["median"] <= row["gain"]["high"]
    by_model = next(row for row in rows if (row["draft"], row["k"]) == ("primer-draft", "1"))
    assert by_model["formula"] == pytest.approx(
        (1 + by_model["acceptance"]) / (by_model["cost_ratio"] + by_model["verify_cost"])
    )
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| readable")]
    assert len(lines) == len(rows)


def test_a_draft_that_often_has_nothing_to_say_has_no_formula(script: ModuleType) -> None:
    from kvlab.speculative import Speculation

    runs = [[Speculation([1], [5, 6, 7], token_times=[0.5], history=[(2, 2), (0, 0)], draft_seconds=0.1)]]
    row = script.row_of("readable", "prompt look-up", None, 2, [1.0], runs, [[5, 6, 7]], 0.01, {1: 1.1, 2: 1.2})
    assert row.formula is None and row.acceptance == 1 and row.tokens_per_round == 1.5 and row.same_text == 1
