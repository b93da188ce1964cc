"""Latency and capacity against loops written here, published figures beside the bound, and text as it streams."""

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvlab import arithmetic, claims, measured, published, streaming
from kvlab.arithmetic.capacity import sum_of_larger

SMALL = {"n_params": 10**6, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "d_head": 8, "bytes_per_value": 2}
CARD = {"peak_flops": 1e12, "bandwidth": 1e10, "memory_bytes": 5e6}


def slow_latency(model: dict, gpu: dict, prompt_len: int, n_new: int, batch: int) -> list[float]:
    """Seconds of each pass, pair by pair and value by value."""
    passes = []
    for step in range(n_new):
        new = prompt_len if step == 0 else 1
        past = 0 if step == 0 else prompt_len + step - 1
        flops = held = 0
        for _ in range(batch):
            for position in range(past, past + new):
                flops += 2 * model["n_params"]
                for _ in range(position + 1):  # each key that this query sees: one score, one weighted sum
                    flops += 2 * 2 * model["n_layers"] * model["n_heads"] * model["d_head"]
            held += 2 * model["n_layers"] * model["n_kv_heads"] * model["d_head"] * (past + new)
        moved = (model["n_params"] + held) * model["bytes_per_value"]
        passes.append(max(flops / gpu["peak_flops"], moved / gpu["bandwidth"]))
    return passes


@pytest.mark.parametrize("seed", range(12))
def test_latency_is_that_of_a_loop(seed: int) -> None:
    draw = random.Random(seed)
    model = SMALL | {"n_params": draw.choice([10, 2000, 10**6]), "bytes_per_value": draw.choice([0.5, 1, 2, 4])}
    card = CARD | {"peak_flops": 10 ** draw.uniform(7, 12)}  # both limits, and decodes that pass from one to the other
    size = draw.randint(1, 30), draw.randint(2, 40), draw.randint(1, 5)
    passes = slow_latency(model, card, *size)
    found = arithmetic.predict_latency(model, card, *size)
    assert found.keys() == {"ttft", "tpot", "e2e"}
    assert math.isclose(found["ttft"], passes[0], rel_tol=1e-12)
    assert math.isclose(found["tpot"], sum(passes[1:]) / len(passes[1:]), rel_tol=1e-12)
    assert math.isclose(found["e2e"], sum(passes), rel_tol=1e-12)


def test_one_new_token_has_no_gap() -> None:
    found = arithmetic.predict_latency(SMALL, CARD, 7, 1)
    assert math.isnan(found["tpot"]) and found["e2e"] == found["ttft"]


@pytest.mark.parametrize(
    "lines", [((1.0, 2.0), (50.0, 0.5)), ((50.0, 0.5), (1.0, 2.0)), ((3.0, 1.0), (4.0, 1.0)), ((0.0, 0.0), (0.0, 0.0))]
)
@pytest.mark.parametrize(("start", "end"), [(1, 100), (1, 0), (33, 33), (30, 36), (90, 95), (1, 5)])
def test_sum_of_the_larger_line(lines: tuple, start: int, end: int) -> None:
    (a, b), (c, d) = lines
    expected = sum(max(a + b * x, c + d * x) for x in range(start, end + 1))
    assert math.isclose(sum_of_larger(*lines, start, end), expected, rel_tol=1e-12)


def test_a_long_answer_is_no_long_loop() -> None:
    assert arithmetic.predict_latency("llama-3-8b", "a100-80gb", 1, 10**15)["e2e"] > 10**15 * 0.007


def test_a_published_model_by_hand() -> None:
    found = arithmetic.predict_latency("llama-3-8b", "a100-80gb", 1024, 2)
    assert math.isclose(
        found["ttft"], (2 * 8030261248 * 1024 + 4 * 32 * 4096 * 1024 * 1025 / 2) / 312e12, rel_tol=1e-12
    )
    assert math.isclose(found["tpot"], (2 * 8030261248 + 131072 * 1025) / 2.039e12, rel_tol=1e-12)
    same = arithmetic.capacity_shape("llama-3-8b")
    assert arithmetic.predict_latency(same, published.gpu("a100-80gb"), 1024, 2) == found


@pytest.mark.parametrize(("model", "most"), [("llama-3-70b", 1.031), ("llama-3-8b", 1.15), ("llama-3.2-1b", 1.27)])
@pytest.mark.parametrize("n", [1, 512, 4096])
def test_the_quick_estimate_is_a_little_above_the_exact_bound(n: int, model: str, most: float) -> None:
    """It multiplies and reads the token table, and runs the head at every position."""
    exact = arithmetic.pass_seconds(model, "a100-80gb", n)
    tied = model == "llama-3.2-1b"  # one table for both: a pass of one token reads all parameters anyway
    found = arithmetic.predict_latency(model, "a100-80gb", n, 2)
    assert (1 if tied else 1.01) * exact <= found["ttft"] * (1 + 1e-12) and found["ttft"] < most * exact
    step = arithmetic.pass_seconds(model, "a100-80gb", 1, n)
    assert step <= found["tpot"] * (1 + 1e-12) and found["tpot"] < 1.071 * step


def test_sequences_are_counted_until_one_more_does_not_fit() -> None:
    for seq_len in (1, 7, 100, 10**6):
        for reserve in (0, 1e6, 4e6, 6e6):
            count, free = 0, CARD["memory_bytes"] - reserve - 2 * 10**6
            while (count + 1) * 2 * 3 * 2 * 8 * seq_len * 2 <= free:
                count += 1
            assert arithmetic.max_concurrent(SMALL, CARD, seq_len, reserve) == count
    assert arithmetic.max_concurrent("llama-3-70b", "a100-80gb", 1) == 0


def test_the_order_of_ways_to_serve() -> None:
    one = arithmetic.predict_latency("llama-3-8b", "a100-80gb", 512, 64)
    eight = arithmetic.predict_latency("llama-3-8b", "a100-80gb", 512, 64, 8)
    assert one["tpot"] < eight["tpot"] < 1.2 * one["tpot"], "a batch shares the weights"
    assert math.isclose(eight["ttft"] / one["ttft"], 8, rel_tol=0.01), "prefill does not"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_len": 0}, "prompt_len"),
        ({"n_new": 0}, "n_new"),
        ({"batch": 0}, "batch"),
        ({"n_new": 1.5}, "whole number"),
        ({"model": {**SMALL, "n_layers": 0}}, "n_layers"),
        ({"model": {"n_params": 1}}, "the model lacks n_layers"),
        ({"model": "llama-9"}, "no model 'llama-9'"),
        ({"model": "deepseek-v3"}, "dense"),
        ({"model": "mistral-7b-v0.1"}, "full attention"),
        ({"gpu": {**CARD, "bandwidth": 0}}, "bandwidth"),
        ({"gpu": {}}, "the GPU lacks peak_flops"),
        ({"gpu": "b999"}, "no GPU 'b999'"),
        ({"gpu": 3}, "a GPU is a name"),
    ],
)
def test_bad_plans_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arithmetic.predict_latency(**{"model": SMALL, "gpu": CARD, "prompt_len": 1, "n_new": 1, **changes})


def test_bad_capacities_are_refused() -> None:
    for arguments, message in (((0,), "seq_len"), ((1, -1), "reserve_bytes")):
        with pytest.raises(ValueError, match=message):
            arithmetic.max_concurrent(SMALL, CARD, *arguments)


def test_decode_rate_is_the_roofline_of_one_step() -> None:
    bytes_read = 2 * (8030261248 - 128256 * 4096) + 32 * 4096 * 131072
    assert math.isclose(
        arithmetic.decode_tokens_per_second("llama-3-8b", "a100-80gb", 4096, 32), 32 * 2.039e12 / bytes_read
    )


def test_published_figures_stay_below_the_bound() -> None:
    found = measured.rows()
    assert len(found) >= 4 and len({row.key for row in found}) == len(found)
    for row in found:
        assert 0.1 < row.share < 1 and row.source and row.read
    first = {row.key: row for row in found}["a100-40gb-vllm-1"]
    bound = 127 / sum((15009849344 + 131072 * context) / 1.555e12 for context in range(1025, 1152))
    assert math.isclose(first.bound, bound, rel_tol=1e-12)
    assert f"{first.share:.0%}" == "73%" and "73%" in measured.table().to_text()
    assert first.has_lengths and "29% or more" in measured.table().to_text(), "no lengths: the share is a least one"


@pytest.fixture
def fresh_rows() -> Iterator[None]:
    measured.rows.cache_clear()
    yield
    measured.rows.cache_clear()


@pytest.mark.parametrize("text", ['{"read": "x"}', '{"read": "x", "measured": [{"key": "a"}]}'])
def test_a_damaged_table_of_figures_is_named(
    fresh_rows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "measured.json").write_text(text)
    monkeypatch.setattr(measured, "data_dir", lambda: tmp_path)
    with pytest.raises(ValueError, match=r"measured\.json is damaged"):
        measured.rows()


def row(**changes: object) -> dict:
    compute = {
        "fn": "kvlab.arithmetic.pass_seconds",
        "args": {"model": "llama-3-8b", "device": "a100-80gb", "n_new": 1024},
    }
    return {
        "id": "24.01",
        "card": 24,
        "said_by": "guide",
        "claim": "a figure",
        "guide": 30,
        "ours": 46.7,
        "unit": "ms, lower bound",
        "verdict": "wrong",
        "note": "a note",
        "source": "a source",
        "compute": {**compute, "scale": 1000},
        **changes,
    }


def test_figures_beyond_the_hardware_are_found() -> None:
    rate = {
        "fn": "kvlab.arithmetic.decode_tokens_per_second",
        "args": {"model": "llama-3-8b", "device": "a100-80gb", "context": 4096, "batch": 8},
    }
    table = [
        row(),
        row(id="24.02", guide=50),
        row(id="24.03", guide=46, ours=45),  # above the register's rounded 45, below the bound computed anew
        row(id="24.04", guide=220, ours=845.0, unit="tokens/s, upper bound", compute=rate),
        row(id="24.05", guide=900, ours=845.0, unit="tokens/s, upper bound", compute=rate),
        row(id="24.06", guide="30 ms"),
        row(id="24.07", unit="ms"),
        {k: v for k, v in row(id="24.08", guide=1, ours=2, date="2026-11-30").items() if k != "compute"},
    ]
    claims.validate(table)
    assert [claim["id"] for claim in claims.beyond_hardware(table)] == ["24.01", "24.03", "24.05", "24.08"]
    assert all(claim in claims.rows() for claim in claims.beyond_hardware())


@pytest.mark.parametrize("seed", range(6))
def test_streamed_text_joins_to_the_whole(seed: int) -> None:
    draw = random.Random(seed)
    text = "".join(draw.choice("a é€😀日́🇪🇺\n") for _ in range(40)).encode()
    if seed % 2:  # broken bytes too
        text = bytes(draw.choice([byte, draw.randrange(256)]) for byte in text)
    cuts = sorted(draw.choices(range(len(text) + 1), k=30))
    tokens = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    shown = streaming.stream_text(tokens)
    assert len(shown) == len(tokens) + 1
    assert "".join(shown) == text.decode("utf-8", "replace")
    if not seed % 2:
        assert "\ufffd" not in "".join(shown)


def test_a_character_comes_with_the_token_that_completes_it() -> None:
    assert streaming.stream_text([b"a\xf0\x9f", b"\x98", b"", b"\x80b"]) == ["a", "", "", "😀b", ""]
    assert streaming.stream_text([b"\xd1"]) == ["", "\ufffd"] and streaming.stream_text([]) == [""]


@pytest.mark.parametrize("bad", [b"abc", "abc", ["a"], [b"a", 3]])
def test_only_bytes_are_streamed(bad: object) -> None:
    with pytest.raises(ValueError, match="bytes"):
        streaming.stream_text(bad)
