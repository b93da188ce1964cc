"""benchmarks/decode.py at tiny sizes: it runs, its tables have every row, and it compares equal things.

No time is judged here: what a clock says on a busy machine proves nothing.
"""

import importlib
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch

from helpers import require
from kvlab.config import ModelConfig
from kvlab.generate import generate_cached
from kvlab.loading import random_model
from kvlab.profiling import Bandwidth

FOLDER = Path(__file__).parents[1] / "benchmarks"
SHAPE = ModelConfig(vocab_size=61, d_model=24, n_layers=2, n_heads=4, n_kv_heads=2, d_head=6, d_ff=40, max_len=64)
BANDWIDTH = Bandwidth({"sum": 2e9, "copy": 3e9}, 1, "cpu", 1)
IDS = [7, 11, 13, 17, 19, 23, 29, 31]


@pytest.fixture(scope="module")
def decode() -> Iterator[ModuleType]:
    """The script as a module, with its own folder on the path as `python benchmarks/decode.py` has it."""
    require("transformers")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("decode")


@pytest.fixture(scope="module")
def rivals(decode: ModuleType) -> ModuleType:
    return importlib.import_module("rivals")


@pytest.fixture(scope="module")
def report(decode: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict]:
    """(what the script printed, what it wrote) for a plan of the smallest sizes."""
    file = tmp_path_factory.mktemp("bench") / "result.json"
    plan = decode.Plan(SHAPE, contexts=(5,), steps=2, rounds=2, lengths=(2, 4), repeats=2)
    printed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode.profiling, "read_bandwidth", lambda device: BANDWIDTH)  # the real one takes long
        patch.setattr(decode, "print", lambda *a, end="\n", **_: printed.append(" ".join(a) + end), raising=False)
        assert decode.main(["--json", str(file)], plan) == 0
    return "".join(printed), json.loads(file.read_text())


def cells(text: str) -> list[tuple[str, ...]]:
    """The cells of every table row."""
    return [tuple(c.strip() for c in line.strip("|").split("|")) for line in text.splitlines() if line[:1] == "|"]


def test_decode_table_has_every_row(rivals: ModuleType, report: tuple[str, dict]) -> None:
    expected = {
        (dtype, str(threads), str(context), system)
        for dtype in ("float32", "bfloat16")
        for threads in (1, 2)
        for context in (5,)
        for system in (rivals.KVLAB, rivals.GENERATE, rivals.LOOP)
    }
    printed = [row[:4] for row in cells(report[0]) if len(row) == 8 and row[0] in ("float32", "bfloat16")]
    written = [(r["dtype"], str(r["threads"]), str(r["context"]), r["system"]) for r in report[1]["decode"]]
    assert set(printed) == expected and len(printed) == len(expected)
    assert written == printed


def test_cache_table_has_every_row(decode: ModuleType, report: tuple[str, dict]) -> None:
    expected = {(str(n), s) for n in (2, 4) for s in (decode.NAIVE, decode.GROWING, decode.PREALLOCATED)}
    printed = [row[:2] for row in cells(report[0]) if len(row) == 4 and row[0].isdigit()]
    assert set(printed) == expected and len(printed) == len(expected)
    assert {(str(r["n_new"]), r["system"]) for r in report[1]["caches"]} == expected


def test_report_says_what_it_ran_on(report: tuple[str, dict]) -> None:
    text, written = report
    for name in ("date", "cpu", "torch", "transformers"):
        assert f"{name} {written['ran_on'][name]}" in text
    assert written["bandwidth_bytes_per_s"] == {"1": 3e9, "2": 3e9}
    assert "3.0 GB/s with 1 thread(s), 3.0 GB/s with 2 thread(s)" in text


def test_all_systems_choose_the_same_tokens_in_fp32(report: tuple[str, dict]) -> None:
    rows = [row for row in report[1]["decode"] if row["dtype"] == "float32"]
    assert rows and all(row["same_tokens"] for row in rows)


@torch.no_grad()
def test_twin_has_the_same_weights_and_logits_and_its_own_layout(rivals: ModuleType) -> None:
    for tied in (True, False):
        model = random_model(replace(SHAPE, tied=tied), "cpu")
        twin = rivals.transformers_twin(model)
        theirs = dict(twin.named_parameters())
        for name, weight in model.named_parameters():
            assert torch.equal(theirs[name], weight) and theirs[name].is_contiguous()
        ids = torch.tensor([IDS])
        torch.testing.assert_close(twin(ids).logits, model(ids), rtol=0, atol=1e-5)


def test_runs_can_be_repeated_and_decode_what_the_course_generates(rivals: ModuleType) -> None:
    model = random_model(SHAPE, "cpu")
    expected = generate_cached(model, IDS, 5).tokens
    for run in rivals.decode_runs(model, rivals.transformers_twin(model), IDS, 4).values():
        for _ in range(3):
            result = run()
            assert result.tokens == expected
            assert len(result.times) == 5 and result.times == sorted(result.times)


def test_rate_leaves_the_first_token_out(rivals: ModuleType) -> None:
    assert rivals.Decoded([1, 2, 3], [10.0, 10.5, 11.0]).tokens_per_s == 2.0


def test_ratios_are_taken_run_by_run_and_the_limit_counts_weights_and_cache(
    decode: ModuleType, rivals: ModuleType
) -> None:
    ours = [rivals.Decoded([1, 2], [0.0, 1.0]), rivals.Decoded([1, 2], [0.0, 4.0])]
    other = [rivals.Decoded([1, 2], [0.0, 2.0]), rivals.Decoded([1, 3], [0.0, 4.0])]
    results = {rivals.KVLAB: ours, rivals.LOOP: other}
    _, row = decode.decode_rows(SHAPE, 1e6, 2, torch.float32, 1, 10, results)
    assert (row.ratio.low, row.ratio.high) == (1.0, 2.0)
    assert row.same_tokens is False
    # by hand: table 61*24, per block 24*24*2 (q, o) + 24*12*2 (k, v) + 24*40*3 + 2 norms of 24, last norm 24
    weights = 61 * 24 + 2 * (24 * 24 * 2 + 24 * 12 * 2 + 24 * 40 * 3 + 48) + 24
    held = 2 * 2 * 2 * 6 * 11  # K and V, layers, KV heads, width, positions half way through the two steps
    assert math.isclose(row.limit_tokens_per_s, 1e6 / (4 * (weights + held)))
    assert math.isclose(row.limit_share, row.tokens_per_s.median / row.limit_tokens_per_s)


def test_runs_take_turns_and_each_round_starts_with_another(decode: ModuleType) -> None:
    order: list[str] = []
    runs = {name: (lambda name=name: order.append(name)) for name in "abc"}
    with decode.tqdm(disable=True) as bar:
        results = decode.in_turn(runs, 2, bar)
    assert "".join(order) == "abcbca"
    assert {name: len(values) for name, values in results.items()} == {"a": 2, "b": 2, "c": 2}


def test_without_transformers_a_sentence_says_what_to_install(
    decode: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(decode, "find_spec", lambda name: None)
    assert decode.main([]) == 1
    assert "transformers is not installed" in capsys.readouterr().err
