"""Arithmetic against independent oracles: loops that count one thing at a time, and figures known from elsewhere."""

import math
import subprocess
import sys

import pytest

from kvlab import arithmetic as ar
from kvlab import published

TOY = {"n_layers": 2, "d_model": 32, "n_heads": 4, "d_ff": 128, "vocab_size": 64, "tied": False, "ffn_matrices": 2}
GQA = {
    "n_layers": 3,
    "d_model": 24,
    "n_heads": 6,
    "n_kv_heads": 2,
    "d_head": 8,
    "d_ff": 40,
    "vocab_size": 50,
    "tied": True,
}


def matmul_macs(shape: published.PublishedModel, n_new: int, n_past: int, window: int | None = None) -> dict[str, int]:
    """A pass counted matrix by matrix and pair by pair."""
    parts = {"projections": 0, "ffn": 0, "attention": 0}
    for _ in range(shape.n_layers):
        for rows, columns in [
            (shape.d_model, shape.n_heads * shape.d_head),
            (shape.d_model, shape.n_kv_heads * shape.d_head),
            (shape.d_model, shape.n_kv_heads * shape.d_head),
            (shape.n_heads * shape.d_head, shape.d_model),
        ]:
            parts["projections"] += n_new * rows * columns
        parts["ffn"] += shape.ffn_matrices * n_new * shape.d_model * shape.d_ff
        for query in range(n_past, n_past + n_new):
            for key in range(query + 1):
                if window is None or key > query - window:
                    parts["attention"] += 2 * shape.n_heads * shape.d_head
    return parts


# --- memory


def test_kv_cache_bytes_by_counting_values() -> None:
    held = sum(1 for _ in range(2) for _ in range(3) for _ in range(4) for _ in range(5) for _ in range(6))
    assert ar.kv_cache_bytes(3, 4, 5, 6) == held * 2
    assert ar.kv_cache_bytes(3, 4, 5, 6, batch=7, bytes_per_value=4) == held * 7 * 4
    assert ar.kv_cache_bytes(32, 8, 128, 128_000) == 16_777_216_000


def test_kv_cache_bytes_keeps_fractions_and_exact_integers() -> None:
    assert ar.kv_cache_bytes(1, 1, 1, 1, bytes_per_value=0.5) == 1.0
    assert ar.kv_cache_bytes(1, 1, 1, 1, bytes_per_value=0.75) == 1.5
    exact = ar.kv_cache_bytes(10**6, 10**6, 10**6, 10**6)
    assert isinstance(exact, int) and exact == 4 * 10**24
    assert ar.kv_cache_bytes(3.0, 4, 5, 0) == 0


@pytest.mark.parametrize("position", range(6))
@pytest.mark.parametrize(
    "bad", [-1, float("nan"), float("inf"), "many", "2", b"2", True, None, pytest.param(10**400, id="huge")]
)
def test_kv_cache_bytes_rejects(position: int, bad: object) -> None:
    values: list[object] = [2, 2, 2, 2, 2, 2]
    values[position] = bad
    with pytest.raises(ValueError, match="must be"):
        ar.kv_cache_bytes(*values)  # type: ignore[arg-type]


@pytest.mark.parametrize("position", range(5))
def test_kv_cache_bytes_rejects_broken_counts(position: int) -> None:
    values: list[float] = [2, 2, 2, 2, 2]
    values[position] = 2.5
    with pytest.raises(ValueError, match="whole number"):
        ar.kv_cache_bytes(*values)  # type: ignore[arg-type]


def test_per_layer_kinds() -> None:
    # full: the plain formula
    assert ar.kv_bytes("llama-3-8b", 4096) == ar.kv_cache_bytes(32, 8, 128, 4096) == 512 * 2**20
    # a window fills up and then stays
    mistral = [ar.kv_bytes("mistral-7b-v0.1", n) for n in (100, 4096, 4097, 32768)]
    assert mistral == [100 * 131072, 4096 * 131072, 4096 * 131072, 4096 * 131072]
    # half the layers windowed
    gemma = ar.kv_bytes("gemma-2-9b", 8192)
    assert gemma == ar.kv_cache_bytes(21, 8, 256, 4096) + ar.kv_cache_bytes(21, 8, 256, 8192)
    # latent: one row of 512 + 64 values, not two of 128 heads
    assert ar.kv_bytes("deepseek-v3", 1000) == 61 * (512 + 64) * 1000 * 2
    # linear attention: nothing per token, a constant state
    assert ar.kv_bytes("qwen3-next-80b", 1000) == ar.kv_cache_bytes(12, 2, 256, 1000)
    assert ar.state_bytes("qwen3-next-80b", batch=2) == 36 * (32 * 128 * 128 + 8192 * 4) * 2 * 2
    assert ar.state_bytes("llama-3-8b") == 0


def test_bytes_per_token_sum_up_to_the_cache() -> None:
    for key in ("gpt-oss-20b", "deepseek-v2", "llama-2-70b"):
        assert sum(ar.kv_bytes_per_token(key, 2, n) for n in range(300)) == ar.kv_bytes(key, 300)
    assert ar.kv_bytes_per_token("llama-3-8b") == 131_072
    assert ar.kv_values_per_token("mistral-7b-v0.1", 4096) == 0


def test_weights_and_crossover() -> None:
    assert ar.weight_bytes("llama-3-8b") == 16_060_522_496
    assert ar.weight_bytes("llama-3-8b", 0.5) == 8_030_261_248 / 2
    assert ar.crossover_tokens("llama-3-8b") == pytest.approx(122_532.06, abs=0.01)
    assert ar.crossover_tokens("llama-3-8b", batch=4) == pytest.approx(122_532.06 / 4, abs=0.01)
    assert ar.crossover_tokens("mistral-7b-v0.1") == math.inf


@pytest.mark.parametrize("key", ["gemma-2-9b", "gemma-3-27b", "gpt-oss-20b", "llama-2-7b"])
def test_cache_equals_weights_at_the_crossover(key: str) -> None:
    tokens = ar.crossover_tokens(key)
    assert ar.kv_bytes(key, math.floor(tokens)) <= ar.weight_bytes(key) <= ar.kv_bytes(key, math.ceil(tokens))


def test_crossover_before_the_window_is_full() -> None:
    tiny = {**TOY, "layers": [{"layers": 2, "kind": "window", "window": 10**6}]}
    assert ar.crossover_tokens(tiny) == pytest.approx(published.build(tiny).n_params / (2 * 2 * 32))


def test_sequences_that_fit() -> None:
    free = 80 * 2**30
    assert ar.sequences_that_fit("llama-3-8b", 32768, free) == 20
    assert ar.sequences_that_fit("llama-3-8b", 32768, free, reserve_bytes=13_476_831_232) == 16
    assert ar.sequences_that_fit("llama-3-8b", 32768, 1, reserve_bytes=free) == 0
    with pytest.raises(ValueError, match="seq_len"):
        ar.sequences_that_fit("llama-3-8b", 0, free)


def test_concat_copies() -> None:
    written = 0
    for length in range(1, 129):
        written += length
    assert ar.concat_bytes_copied(128, 3) == written * 3
    assert ar.concat_bytes_copied(0, 3) == 0


def test_units() -> None:
    assert (ar.gb(5 * 10**9), ar.gib(5 * 2**30)) == (5.0, 5.0)
    assert ar.format_bytes(16_777_216_000) == "16.78 GB (15.63 GiB)"
    assert ar.format_bytes(131_072) == "131.1 kB (128 KiB)"
    assert ar.format_bytes(512 * 2**20) == "536.9 MB (512 MiB)"
    assert ar.format_bytes(0) == "0 bytes" and ar.format_bytes(2.5) == "2.5 bytes"
    assert ar.format_bytes(805_306_368_000) == "805.3 GB (750 GiB)"
    assert ar.format_bytes(3e15) == "3,000 TB (2,728 TiB)"
    with pytest.raises(ValueError, match="n_bytes"):
        ar.gb(-1)


# --- work


@pytest.mark.parametrize("cached", [False, True])
def test_positions_processed_against_a_loop(cached: bool) -> None:
    for prompt in range(1, 6):
        for new in range(6):
            pushed, length, known = 0, prompt, 0
            for _ in range(new):
                pushed += length - known if cached else length
                known, length = length, length + 1
            assert ar.positions_processed(prompt, new, cached) == pushed


def test_positions_processed_contract() -> None:
    assert (ar.positions_processed(1, 200, False), ar.positions_processed(1, 200, True)) == (20100, 200)
    assert ar.positions_processed(5, 0, False) == ar.positions_processed(5, 0, True) == 0
    assert ar.positions_ratio(1, 200) == 100.5
    for bad in ((0, 1), (-1, 1), (1, -1), (1.5, 1), (1, "x")):
        with pytest.raises(ValueError, match="must be"):
            ar.positions_processed(bad[0], bad[1], cached=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [None, 1, 3, 100])
def test_causal_pairs_against_a_loop(window: int | None) -> None:
    for new in range(7):
        for past in range(7):
            pairs = sum(1 for q in range(past, past + new) for k in range(q + 1) if window is None or k > q - window)
            assert ar.causal_pairs(new, past, window) == pairs
    assert ar.causal_pairs(4, 3, causal=False) == 4 * 7


@pytest.mark.parametrize("shape", [TOY, GQA])
def test_pass_macs_against_matrices(shape: dict) -> None:
    built = published.build(shape)
    for new, past in ((1, 0), (5, 0), (1, 9), (3, 4)):
        got = ar.pass_macs(shape, new, past, head_positions=2)
        assert {k: got[k] for k in ("projections", "ffn", "attention")} == matmul_macs(built, new, past)
        assert got["head"] == 2 * built.d_model * built.vocab_size
        assert got["total"] == sum(v for k, v in got.items() if k != "total")


def test_pass_macs_with_a_window() -> None:
    shape = {**GQA, "layers": [{"layers": 3, "kind": "window", "window": 4}]}
    assert ar.pass_macs(shape, 3, 5)["attention"] == matmul_macs(published.build(shape), 3, 5, window=4)["attention"]


@pytest.mark.parametrize("cached", [False, True])
def test_generation_macs_against_a_loop(cached: bool) -> None:
    total = 0
    for step in range(6):
        new, past = (1, 3 + step) if cached and step else (4 + (0 if cached else step), 0)
        if cached and step:
            past = 4 + step - 1
        total += sum(matmul_macs(published.build(GQA), new, past).values()) + 24 * 50
    assert ar.generation_macs(GQA, 4, 6, cached)["total"] == total


def test_the_last_cached_step_and_the_naive_pass_see_the_same_pairs() -> None:
    """A prefill and one-token steps do together exactly the attention of one pass over everything."""
    stepwise = ar.generation_macs(GQA, 4, 6, cached=True)["attention"]
    assert stepwise == ar.pass_macs(GQA, 9)["attention"]


def test_figures_of_the_published_numpy_script() -> None:
    naive, cached = (ar.generation_macs(TOY, 1, 64, kind, head=False, causal=False)["total"] for kind in (False, True))
    assert (naive, cached) == (62_566_400, 1_839_104)
    assert ar.saved_macs(TOY, 1, 64, head=False, causal=False)["linear_share"] == pytest.approx(0.81586, abs=1e-5)
    assert ar.step_growth(TOY, 1, 64) == pytest.approx(0.32642, abs=1e-5)


def test_saved_macs_need_two_tokens() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        ar.saved_macs(TOY, 5, 1)


def test_growth_exponents() -> None:
    assert ar.growth_exponent(lambda n: 7 * n**2.5, 10) == pytest.approx(2.5)
    assert ar.attention_growth_exponent(2000, cached=False) == pytest.approx(3, abs=2e-3)
    assert ar.attention_growth_exponent(2000, cached=True) == pytest.approx(2, abs=1e-3)
    assert ar.linear_growth_exponent(2000, cached=False) == pytest.approx(2, abs=1e-3)
    assert ar.linear_growth_exponent(2000, cached=True) == 1
    with pytest.raises(ValueError, match="positive"):
        ar.growth_exponent(lambda n: 0, 4)


def test_attention_equals_linear_at_the_stated_length() -> None:
    tokens = ar.attention_equals_linear_tokens("llama-3-8b")
    assert tokens == 53_248
    macs = ar.pass_macs("llama-3-8b", int(tokens))
    assert macs["attention"] / (macs["projections"] + macs["ffn"]) == pytest.approx(1, rel=1e-4)
    step = ar.pass_macs(TOY, 1, int(ar.attention_equals_linear_tokens(TOY, step=True)) - 1)
    assert step["attention"] == step["projections"] + step["ffn"]
    with pytest.raises(ValueError, match="windowed"):
        ar.attention_equals_linear_tokens("mistral-7b-v0.1")


def test_attention_share_of_a_llama_prefill() -> None:
    macs = ar.pass_macs("llama-3-8b", 2000)
    assert macs["attention"] / macs["total"] == pytest.approx(0.036217, rel=1e-3)


def test_kv_projections_are_a_sixth() -> None:
    assert ar.kv_projection_share(TOY) == pytest.approx(1 / 6)


@pytest.mark.parametrize("key", ["deepseek-v3", "gpt-oss-20b", "qwen3-next-80b"])
def test_macs_refuse_other_architectures(key: str) -> None:
    with pytest.raises(ValueError, match="mixture of experts"):
        ar.pass_macs(key, 1)


# --- roofline


def test_roofline_seconds() -> None:
    assert ar.roofline_seconds(10, 4, 5, 4) == 2.0
    assert ar.roofline_seconds(10, 40, 5, 4) == 10.0
    for bad in ((-1, 1, 1, 1), (1, -1, 1, 1), (1, 1, 0, 1), (1, 1, 1, 0), (1, 1, 1, -2)):
        with pytest.raises(ValueError, match="must be"):
            ar.roofline_seconds(*bad)


def test_ridge_points() -> None:
    assert [round(ar.ridge_point(key)) for key in ("a100-80gb", "h100", "h200")] == [153, 295, 206]


def test_bytes_of_a_decode_step() -> None:
    assert ar.read_bytes_per_pass("llama-3-8b") == 15_009_849_344  # all but the untied input table
    assert ar.read_bytes_per_pass("llama-3.2-1b") == ar.weight_bytes("llama-3.2-1b")  # tied: the table is the head
    assert ar.pass_bytes("llama-3-8b", 4096, batch=2) == 15_009_849_344 + 2 * 4096 * 131_072


def test_bounds_of_card_one_written_out() -> None:
    """The two loops on an A100 from the counts of Llama-3 8B, without a function of kvlab."""

    def naive(t: int) -> float:
        flops = 2 * 6_979_321_856 * t + 2 * 525_336_576 + 262_144 * t * (t + 1)
        return max(flops / 312e12, 15_009_849_344 / 2.039e12)

    def cached(t: int) -> float:
        return (15_009_849_344 + t * 131_072) / 2.039e12

    for n, factor in ((200, 1.02), (2000, 6.22)):
        expected = sum(map(naive, range(1, n + 1))) / sum(map(cached, range(1, n + 1)))
        assert ar.cache_speedup_bound("llama-3-8b", "a100-80gb", 1, n) == pytest.approx(expected, rel=1e-9)
        assert expected == pytest.approx(factor, rel=5e-3)


def test_prefill_and_decode_bounds() -> None:
    assert ar.pass_seconds("llama-3-8b", "a100-80gb", 2000) == pytest.approx(92.84e-3, rel=1e-3)
    assert 1 / ar.pass_seconds("llama-3-8b", "a100-80gb", 1) == pytest.approx(135.84, rel=1e-3)
    batch = 32 / ar.pass_seconds("llama-3-8b", "a100-80gb", 1, 4095, batch=32)
    assert batch == pytest.approx(2026.98, rel=1e-3)


def test_importing_needs_no_torch_and_no_numpy() -> None:
    code = "import sys, kvlab.arithmetic, kvlab.claims, kvlab.glossary; print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("convert", [ar.gb, ar.gib, ar.format_bytes])
@pytest.mark.parametrize("bad", [pytest.param(10**400, id="10**400"), pytest.param(10**5000, id="10**5000"), "8", -1])
def test_conversions_name_a_number_that_they_cannot_take(convert, bad) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="n_bytes"):
        convert(bad)


@pytest.mark.parametrize("name", ["n_layers", "n_heads", "d_model", "n_kv_heads", "d_head"])
@pytest.mark.parametrize("bad", [0, -1, 1.5, "2", None, pytest.param(10**400, id="huge")])
def test_shapes_with_a_wrong_size_are_named(name: str, bad: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be"):
        ar.kv_bytes({**GQA, name: bad}, 10)
