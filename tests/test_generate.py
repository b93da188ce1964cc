"""The two loops: equal tokens in float64, honest counts, stops, streams, refusals."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.arithmetic import positions_processed
from kvlab.cache import GrowingCache, PreallocatedCache
from kvlab.config import ModelConfig
from kvlab.generate import GREEDY, generate_cached, generate_naive, stream
from kvlab.loading import load, random_model
from kvlab.model import Llama
from kvlab.paths import data_dir
from kvlab.sampling import SamplingSettings

CONFIG = ModelConfig(vocab_size=50, d_model=16, n_layers=3, n_heads=4, n_kv_heads=2, d_head=6, d_ff=24, max_len=48)
PROMPT = "Once there was a brave boy named Felix. Felix had a"


@pytest.fixture(scope="module")
def model() -> Llama:
    return random_model(CONFIG, "cpu", torch.float64, seed=5)


@pytest.fixture(scope="module")
def draft() -> Llama:
    return load("primer-draft", "cpu", torch.float64)


PROMPTS = st.lists(st.integers(0, 49), min_size=1, max_size=20)


@given(prompt=PROMPTS, n_new=st.integers(0, 20), kind=st.sampled_from([None, GrowingCache, PreallocatedCache]))
@settings(max_examples=60, deadline=None)
def test_cached_equals_naive_token_for_token(model: Llama, prompt: list[int], n_new: int, kind: type | None) -> None:
    cache = None
    if kind is GrowingCache:
        cache = GrowingCache(CONFIG)
    elif kind is PreallocatedCache:
        cache = PreallocatedCache(CONFIG, dtype=torch.float64)
    naive = generate_naive(model, prompt, n_new)
    cached = generate_cached(model, prompt, n_new, cache=cache)
    assert cached.tokens == naive.tokens
    assert len(cached.tokens) == n_new
    assert naive.positions_processed == sum(len(prompt) + i for i in range(n_new))
    assert cached.positions_processed == (len(prompt) + n_new - 1 if n_new else 0)
    assert naive.positions_processed == positions_processed(len(prompt), n_new, cached=False)
    assert cached.positions_processed == positions_processed(len(prompt), n_new, cached=True)


@given(prompt=PROMPTS, seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_sampled_tokens_are_equal_too(model: Llama, prompt: list[int], seed: int) -> None:
    chosen = SamplingSettings(temperature=1.3, top_k=20, top_p=0.9, repetition_penalty=1.2, seed=seed)
    assert generate_cached(model, prompt, 12, chosen).tokens == generate_naive(model, prompt, 12, chosen).tokens


def test_greedy_tokens_equal_a_loop_written_out(model: Llama) -> None:
    ids = [3, 1, 4]
    for _ in range(10):
        ids.append(int(model(torch.tensor(ids))[-1].argmax()))
    assert generate_cached(model, [3, 1, 4], 10).tokens == ids[3:]


@torch.no_grad()
def test_chunks_on_a_filled_cache_equal_one_pass(model: Llama) -> None:
    ids = torch.arange(20)
    cache = PreallocatedCache(CONFIG, dtype=torch.float64)
    parts = [model(ids[start : start + 7], cache) for start in range(0, 20, 7)]
    torch.testing.assert_close(torch.cat(parts), model(ids))


def test_times_rise_and_are_one_for_each_token(model: Llama) -> None:
    run = generate_cached(model, [1, 2], 8)
    assert len(run.token_times) == 8
    assert run.token_times == sorted(run.token_times)
    assert run.seconds == run.token_times[-1]


def test_same_seed_same_text_and_another_seed_another(draft: Llama) -> None:
    warm = SamplingSettings(temperature=1.0, seed=1)
    first, again, other = (generate_cached(draft, PROMPT, 40, s).tokens for s in (warm, warm, replace(warm, seed=2)))
    assert first == again
    assert first != other


def test_stops_at_the_end_token(draft: Llama) -> None:
    run = generate_cached(draft, PROMPT, 400, SamplingSettings(temperature=1.0, seed=3))
    assert run.stopped_by == "eos"
    assert run.tokens[-1] == draft.tokenizer.eos_id
    assert run.text == draft.tokenizer.decode(run.tokens)
    assert "<|eos|>" not in run.text


@pytest.mark.parametrize("loop", [generate_naive, generate_cached])
def test_the_end_token_can_be_ignored(draft: Llama, loop) -> None:  # type: ignore[no-untyped-def]
    ended = loop(draft, "mom", 300)
    assert (ended.stopped_by, len(ended.tokens) < 300) == ("eos", True)
    run = loop(draft, "mom", 300, ignore_eos=True)
    assert (run.stopped_by, len(run.tokens)) == ("length", 300)
    assert run.tokens[: len(ended.tokens)] == ended.tokens
    assert "<|eos|>" not in run.text


@pytest.mark.parametrize("stop", [[". "], ["ver", "x"], ["e q"], ["never there"]])
def test_stop_strings_cut_the_text(draft: Llama, stop: list[str]) -> None:
    free = generate_cached(draft, PROMPT, 40)
    run = generate_cached(draft, PROMPT, 40, stop=stop)
    ends = [free.text.find(s) for s in stop if s in free.text]
    assert run.text == (free.text[: min(ends)] if ends else free.text)
    assert run.stopped_by == ("stop" if ends else free.stopped_by)
    assert run.tokens == free.tokens[: len(run.tokens)]


def test_stream_gives_the_text_of_generate(draft: Llama) -> None:
    chosen = SamplingSettings(temperature=0.9, seed=8)
    whole = generate_cached(draft, PROMPT, 60, chosen, stop=["Then it"])
    pieces = list(stream(draft, PROMPT, 60, chosen, stop=["Then it"]))
    assert "".join(p.text for p in pieces) == whole.text
    assert [p.token for p in pieces] == whole.tokens


def test_stream_yields_before_it_has_finished(draft: Llama) -> None:
    pieces = stream(draft, PROMPT, 8000)
    assert next(pieces).text


@pytest.mark.parametrize(
    ("prompt", "n_new", "message"),
    [
        ([1] * 40, 20, "exceed the window of 48"),
        ([], 3, "the prompt is empty"),
        ([1, 50], 3, "token id 50 is outside the vocabulary of 50"),
        ([-1], 3, "token id -1 is outside"),
        ([1], -1, "max_new must be at least 0"),
        ("text", 3, "no tokenizer"),
    ],
)
@pytest.mark.parametrize("loop", [generate_naive, generate_cached, stream])
def test_bad_input_is_named(model: Llama, loop, prompt, n_new: int, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        loop(model, prompt, n_new)


@pytest.mark.parametrize("stop", ["text", [""], [3]])
@pytest.mark.parametrize("loop", [generate_naive, generate_cached, stream])
def test_bad_stop_strings_are_named(draft: Llama, loop, stop) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="non-empty strings"):
        loop(draft, PROMPT, 3, stop=stop)


def test_stop_without_a_tokenizer_is_named(model: Llama) -> None:
    with pytest.raises(ValueError, match="no tokenizer, so stop strings"):
        generate_cached(model, [1], 3, stop=["x"])


def test_a_used_cache_is_refused_and_unchanged(model: Llama) -> None:
    cache = PreallocatedCache(CONFIG, dtype=torch.float64)
    generate_cached(model, [1, 2, 3], 4, cache=cache)
    with pytest.raises(ValueError, match="already holds 6 positions of another sequence"):
        generate_cached(model, [1, 2, 3], 4, cache=cache)
    assert cache.length == 6


def test_a_small_cache_is_refused_before_anything_is_computed(model: Llama) -> None:
    cache = PreallocatedCache(CONFIG, 5, dtype=torch.float64)
    with pytest.raises(ValueError, match="need 6 positions, but the cache has room for 5"):
        generate_cached(model, [1, 2, 3], 4, cache=cache)
    assert cache.length == 0
    assert len(generate_cached(model, [1, 2, 3], 3, cache=cache).tokens) == 3


def test_greedy_is_temperature_zero() -> None:
    assert replace(GREEDY, temperature=0.0) == GREEDY


# --- special tokens --------------------------------------------------------------------------------------------------


def starts_with(model: Llama, token: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the first generated token this one; the others are the model's."""
    from kvlab import generate

    right = generate.choose

    def choose(logits, settings, context, result, generator):  # type: ignore[no-untyped-def]
        return token if not result.tokens else right(logits, settings, context, result, generator)

    monkeypatch.setattr(generate, "choose", choose)


@pytest.mark.parametrize("loop", [generate_naive, generate_cached])
def test_special_tokens_are_not_part_of_the_text(draft: Llama, loop, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    starts_with(draft, draft.tokenizer.bos_id, monkeypatch)
    run = loop(draft, PROMPT, 5, stop=["<|bos|>"])
    assert run.tokens[0] == draft.tokenizer.bos_id
    assert run.stopped_by == "length"
    assert "<|" not in run.text
    assert run.text == draft.tokenizer.decode(run.tokens)


def test_after_an_ignored_end_the_text_is_still_that_of_decode(draft: Llama) -> None:
    run = generate_cached(draft, "mom", 120, ignore_eos=True)
    assert draft.tokenizer.eos_id in run.tokens[:-1]
    assert run.text == draft.tokenizer.decode(run.tokens)


def test_ids_that_the_tokenizer_does_not_know_add_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint may have more rows than its tokenizer has tokens: one of them must not end the answer."""
    from kvlab.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_file(data_dir() / "primer" / "tokenizer.json", 5000)
    wide = random_model(replace(CONFIG, vocab_size=5000), "cpu", torch.float64)
    wide.tokenizer = tokenizer
    starts_with(wide, 4999, monkeypatch)
    run = generate_cached(wide, [1], 3)
    assert (run.tokens[0], len(run.tokens)) == (4999, 3)
    assert run.text == tokenizer.decode(run.tokens)
    assert tokenizer.pieces([4999]) == ["<|unused 4999|>"]


# --- refusals at the call --------------------------------------------------------------------------------------------

LOOPS = [generate_naive, generate_cached, stream]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "prompt", [[1.7], ["1"], b"abc", [[1, 2]], torch.ones(1, 2, dtype=torch.long), torch.tensor(3), None, 5, {1: 2}]
)
def test_a_prompt_is_a_text_or_a_flat_list_of_ids(model: Llama, loop, prompt) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="flat list of whole numbers"):
        loop(model, prompt, 3)


def test_a_tensor_of_ids_is_a_prompt(model: Llama) -> None:
    assert generate_cached(model, torch.tensor([3, 1]), 4).tokens == generate_cached(model, [3, 1], 4).tokens


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("n_new", [float("nan"), 2.5, "3", None, True])
def test_max_new_is_a_whole_number(model: Llama, loop, n_new) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="max_new must be a whole number"):
        loop(model, [1], n_new)


def test_a_whole_float_counts_as_max_new(model: Llama) -> None:
    assert len(generate_cached(model, [1], 3.0).tokens) == len(generate_naive(model, [1], 3.0).tokens) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("loop", LOOPS)
def test_settings_that_the_model_cannot_follow_raise_at_the_call(model: Llama, loop) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="logit_bias names id 50, but ids run from 0 to 49"):
        loop(model, [1], 4, SamplingSettings(logit_bias={50: 1}))
    with pytest.raises(ValueError, match="settings must be SamplingSettings"):
        loop(model, [1], 4, {"temperature": 0})


@pytest.mark.parametrize("loop", LOOPS)
def test_half_a_character_in_a_prompt_is_named(draft: Llama, loop) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="half a character"):
        loop(draft, "mom \ud800", 3)


@pytest.mark.parametrize("settings", [GREEDY, replace(GREEDY, seed=1), SamplingSettings()])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("loop", [generate_naive, generate_cached])
def test_logits_without_a_best_token_are_refused(loop, value: float, settings: SamplingSettings) -> None:  # type: ignore[no-untyped-def]
    broken = random_model(CONFIG, "cpu", torch.float64)
    row = slice(None) if value == float("-inf") else slice(7, 8)
    broken.lm_head.register_forward_hook(lambda _, __, logits: logits.index_fill(-1, torch.arange(50)[row], value))
    with pytest.raises(ValueError, match="NaN or inf"):
        loop(broken, [1], 3, settings)
