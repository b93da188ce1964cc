"""The widgets of notebook 06: what they show is what the plain functions give, and those agree with what runs."""

import math

import numpy as np
import pytest
import torch

import kvlab
from kvlab import faults, speculative, widgets
from kvlab.quantize import dequantize_rows, pack_int4, quantize_rows
from kvlab.tiled import largest_intermediate, online_softmax_attention
from kvlab.widgets.break_draft import FILTERED, FREE, GREEDY


def test_draft_lengths_by_hand() -> None:
    values = widgets.draft_lengths(0.5, 0.25, 0.5, k=2, most=3)
    assert values["tokens"] == [1.5, 1.75, 1.875]
    assert values["speedups"] == pytest.approx([1.5 / 1.75, 1.75 / 2.5, 1.875 / 3.25])
    assert values["verify_cost"] == 2 and values["best"] == 0, "no length pays"
    assert speculative.expected_tokens(values["needed"], 2) == pytest.approx(2.5)


def test_the_best_length_is_that_of_the_rule_when_verifying_costs_one_step() -> None:
    for acceptance in (0.0, 0.3, 0.8, 0.95):
        best = widgets.draft_lengths(acceptance, 0.1, 0.0, k=1)["best"]
        assert best == speculative.best_k(acceptance, 0.1, widgets.draft_length.__globals__["MOST"])


@pytest.mark.parametrize("bad", [(1.2, 0.1), (0.5, -1.0), (0.5, 0.1, -0.1), (0.5, 0.1, 0.0, 0), (0.5, 0.1, 0.0, 99)])
def test_draft_lengths_refuse(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError):
        widgets.draft_lengths(*bad)  # type: ignore[arg-type]


def test_draft_widget_shows_the_curve_and_the_mark() -> None:
    shown = widgets.draft_length(0.8, 0.1, 0.05, 4)
    shown.controls["acceptance"].value = 0.6
    shown.controls["k"].value = 3
    values = widgets.draft_lengths(0.6, 0.1, 0.05, 3)
    assert shown.values == values
    tokens, gain, mark, plain = shown.figure.axes[0].get_lines()
    assert list(tokens.get_ydata()) == values["tokens"] and list(gain.get_ydata()) == values["speedups"]
    assert list(mark.get_xdata()) == [3] and set(plain.get_ydata()) == {1.0}


@pytest.mark.parametrize(("bits", "group"), [(8, None), (4, None), (4, 8), (3, 16)])
def test_bit_errors_against_codes_that_are_really_held(bits: int, group: int | None) -> None:
    weights = np.random.default_rng(3).normal(size=(6, 32)).astype(np.float32)
    weights[2, 5] = 40
    found = widgets.bit_errors(weights, bits, group)
    codes, scales = quantize_rows(weights.reshape(-1, group or 32), bits)
    held = codes.nbytes if bits > 4 else pack_int4(codes.reshape(-1)).nbytes
    assert found["nbytes"] == found["sizes"][bits] == held + scales.nbytes
    back = dequantize_rows(codes, scales).reshape(weights.shape).astype(np.float64)
    expected = math.sqrt(((back - weights) ** 2).sum() / (weights.astype(np.float64) ** 2).sum())
    assert found["error"] == pytest.approx(expected)
    errors = list(found["errors"].values())
    assert errors == sorted(errors, reverse=True)


def test_bit_errors_refuse() -> None:
    good = np.ones((2, 6))
    for bad in ((good, 9), (good, 4, 4), (good[0], 4), (good * 0, 4), (good * np.nan, 4)):
        with pytest.raises(ValueError):
            widgets.bit_errors(*bad)


def test_bits_widget_shows_what_the_plain_function_returns() -> None:
    weights = torch.randn(4, 32, generator=torch.Generator().manual_seed(1))
    shown = widgets.bits(weights, 4, groups=(8, 16))
    shown.controls["bits"].value = 6
    shown.controls["group"].value = 8
    assert shown.values == widgets.bit_errors(weights, 6, 8)
    curve, mark = shown.figure.axes[0].get_lines()
    assert list(curve.get_ydata()) == [100 * error for error in shown.values["errors"].values()]
    assert list(mark.get_xdata()) == [6]


@pytest.mark.parametrize(("n", "block", "d"), [(64, 16, 8), (100, 16, 4), (50, 64, 3), (128, 32, 64), (7, 1, 2)])
def test_tile_counts_against_what_tiled_attention_really_makes(n: int, block: int, d: int) -> None:
    q, k, v = torch.randn(3, 2, n, d, generator=torch.Generator().manual_seed(0))
    counts = widgets.tile_counts(n, block, d, heads=2)
    assert largest_intermediate(online_softmax_attention, q, k, v, block).nbytes == counts["largest"]
    tiles = [(a, b) for a in range(0, n, block) for b in range(0, a + 1, block)]
    pairs = sum((min(a + block, n) - a) * (min(b + block, n) - b) for a, b in tiles)
    assert counts["tiles"] == len(tiles) and counts["pairs"] == 2 * pairs
    assert counts["causal"] == 2 * sum(range(1, n + 1)) <= counts["pairs"] and counts["full"] == 8 * n * n


def test_tiles_widget_shows_what_the_plain_function_returns() -> None:
    shown = widgets.tiles(4096, 64, 64)
    shown.controls["block"].value = 512
    assert shown.values == widgets.tile_counts(4096, 512, 64)
    full, tiled, mark = shown.figure.axes[0].get_lines()
    assert tiled.get_ydata()[0] == widgets.tile_counts(128, 512, 64)["largest"] / 1e6
    assert full.get_ydata()[0] == 4 * 128**2 / 1e6 and list(mark.get_xdata()) == [4096]
    with pytest.raises(ValueError):
        widgets.tile_counts(8, 0)


RED = {
    "none": set(),
    "resampled_from_target": {FREE, FILTERED},
    "draft_probs_unfiltered": {FILTERED},
    "bonus_from_draft": {GREEDY, FREE, FILTERED},
    "target_cache_kept": {GREEDY, FREE, FILTERED},
}


@pytest.fixture(scope="module")
def pair() -> tuple:
    return tuple(kvlab.load(name, "cpu", torch.float64) for name in ("primer", "primer-draft"))


@pytest.mark.parametrize("fault", widgets.DRAFT_FAULTS)
def test_each_fault_turns_its_checks_red(pair: tuple, fault: str) -> None:
    found = widgets.run_draft_fault(*pair, fault, n_new=12)
    assert {name for name, good in found["checks"].items() if not good} == RED[fault]
    assert 0 < found["acceptance"] < 1, "a draft that is never rejected, or always, tests too little"
    assert sum(found["expected"]) == pytest.approx(1) and sum(found["counted"]) == pytest.approx(1)
    assert found["text"]


def test_break_widget_runs_the_chosen_fault_and_leaves_none_behind(pair: tuple) -> None:
    shown = widgets.break_draft(*pair)
    shown.controls["fault"].value = "bonus_from_draft"
    assert shown.values == widgets.run_draft_fault(*pair, "bonus_from_draft")
    assert "FAILS" in shown.table and faults.FAULTS["bonus_from_draft"].summary in shown.table
    expected, counted = shown.figure.axes[0].get_lines()
    assert list(counted.get_ydata()) == [100 * share for share in shown.values["counted"][:12]]
    assert list(expected.get_ydata()) == [100 * share for share in shown.values["expected"][:12]]
    assert all(widgets.run_draft_fault(*pair, "none", n_new=4)["checks"].values())
    with pytest.raises(ValueError, match="choose one of"):
        widgets.run_draft_fault(*pair, "stale_cache")
