"""benchmarks/fast.py at tiny sizes: it runs, and every row compares what it says. No time is judged."""

import importlib
import json
from pathlib import Path
from types import ModuleType

import pytest

from helpers import require
from kvlab.config import ModelConfig

FOLDER = Path(__file__).parents[1] / "benchmarks"
SHAPE = ModelConfig(vocab_size=61, d_model=64, n_layers=2, n_heads=4, n_kv_heads=2, d_head=16, d_ff=64, max_len=64)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    require("transformers")
    require("numba")
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("fast")


def test_it_prints_and_writes_every_row(
    fast: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast, "bandwidth", lambda n_bytes, threads: {"sum": 2e9, "bf16 rows": 4e9})
    plan = fast.Plan(SHAPE, contexts=(5,), prompts=(8,), vocab=1000, steps=2, rounds=2)
    assert fast.main(["--json", str(tmp_path / "r.json"), "--threads", "1"], plan) == 0
    result = json.loads((tmp_path / "r.json").read_text())
    rows = {(row["work"], row["system"]): row for row in result["rows"]}
    systems = ["readable", "transformers generate", "transformers generate, static cache", *plan.formats]
    assert [s for w, s in rows if w == "decode, context 5"] == systems
    assert rows["decode, context 5", "int4"]["beside"] == "bf16"
    assert rows["decode, context 5", "bf16"]["beside"].startswith("transformers generate")
    assert rows["decode, context 5", "int8"]["limit_share"] > 0
    assert rows["prefill 8, bf16", "bf16"]["beside"] == "transformers generate"
    assert sum(work.startswith("sampling from 1000") for work, _ in rows) == 6
    assert rows["decode, primer", "fp32"]["beside"] == "readable"
    printed = capsys.readouterr().out
    for work, system in rows:
        assert any(work in line and system in line for line in printed.splitlines())
    assert result["ran_on"]["numba"] and result["bandwidth_bytes_per_s"]["bf16 rows"] == 4e9


def test_ratios_are_taken_run_by_run(fast: ModuleType) -> None:
    own, other = fast.rows_of("w", {"a": [1.0, 2.0], "b": [3.0, 2.0]}, {"a": "b"}, {"a": 0.75})
    assert (own.ratio.low, own.ratio.high) == (1.0, 3.0)
    assert own.limit_share == 0.5 and other.ratio is None


def test_the_read_speed_counts_our_own_loops(fast: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = importlib.import_module("limits")
    monkeypatch.setattr(limits.profiling, "read_bandwidth", lambda device: type("B", (), {"kernels": {"sum": 1.0}})())
    found = limits.bandwidth(2**20, 2, 1)
    assert set(found) == {"sum", "fp32 rows", "bf16 rows"}
    assert min(found["fp32 rows"], found["bf16 rows"]) > 1e6
