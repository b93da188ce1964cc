"""The roofline explorer: its points by hand, the side of the ridge they lie on, and what the widget shows of them."""

import pytest

from kvlab import published, widgets
from kvlab.widgets.roofline_explorer import MODELS

# Llama-3 8B: MACs per token of projections and FFN, of the head; bytes that a pass reads; cache bytes per token.
LINEAR, HEAD, WEIGHTS, CACHE = 6_979_321_856, 525_336_576, 15_009_849_344, 131_072
PEAK, BANDWIDTH = 312e12, 2.039e12


def test_a_prefill_and_a_decode_step_by_hand() -> None:
    values = widgets.roofline_passes("llama-3-8b", "a100-80gb", prompt=2000, batch=8, context=1000)
    pairs = 2000 * 2001 // 2
    flops = 2 * (LINEAR * 2000 + HEAD + 32 * 2 * 4096 * pairs)
    assert values["prefill"]["flops"] == flops
    assert values["prefill"]["bytes"] == WEIGHTS + 2000 * CACHE
    assert values["prefill"]["seconds"] == pytest.approx(flops / PEAK) and values["prefill"]["limit"] == "arithmetic"
    assert values["prefill"]["share_of_peak"] == pytest.approx(1)
    step = 2 * 8 * (LINEAR + HEAD + 32 * 2 * 4096 * 1000)
    moved = WEIGHTS + 8 * 1000 * CACHE
    assert (values["decode"]["flops"], values["decode"]["bytes"]) == (step, moved)
    assert values["decode"]["seconds"] == pytest.approx(moved / BANDWIDTH) and values["decode"]["limit"] == "memory"
    assert values["decode"]["share_of_peak"] == pytest.approx(step / moved * BANDWIDTH / PEAK)
    assert values["ridge"] == pytest.approx(PEAK / BANDWIDTH)


def test_long_contexts_keep_decode_below_the_ridge_at_any_batch() -> None:
    short, long = (
        widgets.roofline_passes("llama-3-8b", "a100-80gb", prompt=1, batch=1024, context=n) for n in (1, 4096)
    )
    assert short["decode"]["limit"] == "arithmetic" and long["decode"]["limit"] == "memory"
    assert short["fits"] and not long["fits"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": 0}, "prompt must be at least 1"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"context": 0}, "context must be at least 1"),
        ({"gpu": "abacus"}, "no GPU"),
        ({"model": "llama-9"}, "no model"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict, message: str) -> None:
    settings = {"model": "llama-3-8b", "gpu": "t4", "prompt": 8, "batch": 1, "context": 8}
    with pytest.raises(ValueError, match=message):
        widgets.roofline_passes(**settings | changes)


def test_the_widget_shows_what_the_plain_function_returns() -> None:
    shown = widgets.roofline_explorer()
    assert shown.values == widgets.roofline_passes("llama-3-8b", "a100-80gb", 512, 16, 1024)
    shown.controls["batch"].value = 64
    shown.controls["gpu"].value = "t4"
    values = widgets.roofline_passes("llama-3-8b", "t4", 512, 64, 1024)
    assert shown.values == values and "does NOT fit" in shown.table and "waits for" in shown.html
    roof, *points = shown.figure.axes[0].get_lines()
    for phase, point in zip(("prefill", "decode"), points, strict=True):
        assert point.get_xdata()[0] == values[phase]["intensity"]
        assert point.get_ydata()[0] == pytest.approx(values[phase]["flops_per_second"] / 1e12)
    assert max(roof.get_ydata()) == pytest.approx(values["peak"] / 1e12)


def test_two_passes_at_one_point_are_both_seen() -> None:
    shown = widgets.roofline_explorer(prompt=1, batch=1, context=1)
    _, prefill, decode = shown.figure.axes[0].get_lines()
    assert list(prefill.get_xydata()[0]) == list(decode.get_xydata()[0])
    assert prefill.get_markerfacecolor() == "none" and prefill.get_markersize() > 1.5 * decode.get_markersize()
    _, square, _ = shown.figure.axes[0].get_legend().get_lines()
    assert square.get_markerfacecolor() == "none", "the legend shows the mark as it is drawn"
    assert "1 cache of 1 token take" in shown.table
    assert [line.get_label() for line in (prefill, decode)] == ["prefill, 1 token", "decode, batch 1"]


@pytest.mark.parametrize("model", MODELS)
def test_every_choice_works_on_every_gpu(model: str) -> None:
    for gpu in published.gpus():
        values = widgets.roofline_passes(model, gpu, 128, 4, 256)
        for phase in ("prefill", "decode"):
            assert 0 < values[phase]["share_of_peak"] <= 1 + 1e-9
