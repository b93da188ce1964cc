"""Pooling, search, token rows, hidden states and the encoder: against naive loops, torch and transformers."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from helpers import require
from kvlab import models
from kvlab.embeddings import (
    MiniLM,
    cosine_top_k,
    hidden_states,
    last_token_pool,
    mean_pool,
    recall_at_k,
    token_rows,
    word_states,
)
from kvlab.embeddings.decoder import every_layer, last_token_of
from kvlab.paths import data_dir
from real_models import require_model

TEXTS = ["Tom sat on the bank of the river.", "Tom put the coins in the bank.", "Mom"]


@pytest.fixture(scope="module")
def primer():
    return kvlab.load("primer", "cpu")


@pytest.fixture(scope="module")
def minilm():
    require_model("minilm")
    return MiniLM.load()


# --- pooling ---------------------------------------------------------------------------------------------------------


def batch(lengths: list[int], left: list[bool], width: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    """Random hidden states with every row padded to the longest, on the left or on the right."""
    n = max(lengths)
    hidden = torch.randn(len(lengths), n, width, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    mask = torch.zeros(len(lengths), n, dtype=torch.bool)
    for row, (length, at_left) in enumerate(zip(lengths, left, strict=True)):
        mask[row, n - length :] = at_left
        mask[row, :length] |= not at_left
    return hidden, mask


rows = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=4)


@given(rows)
def test_pools_of_padded_rows_are_those_of_the_rows_alone(chosen: list[tuple[int, bool]]) -> None:
    hidden, mask = batch([length for length, _ in chosen], [left for _, left in chosen])
    for kind in (mask, mask.long(), mask.double()):
        means, lasts = mean_pool(hidden, kind), last_token_pool(hidden, kind)
        for row in range(len(chosen)):
            real = [hidden[row, i] for i in range(hidden.shape[1]) if mask[row, i]]
            assert torch.allclose(means[row], sum(real) / len(real), rtol=0, atol=1e-12)
            assert torch.equal(lasts[row], real[-1])


@pytest.mark.parametrize("pool", [mean_pool, last_token_pool])
def test_pools_refuse_what_does_not_fit(pool) -> None:  # type: ignore[no-untyped-def]
    hidden = torch.ones(2, 3, 4)
    with pytest.raises(ValueError, match="row 1 of the mask is empty"):
        pool(hidden, torch.tensor([[1, 1, 1], [0, 0, 0]]))
    with pytest.raises(ValueError, match=r"mask must be \(B, n\) = \(2, 3\)"):
        pool(hidden, torch.ones(2, 4))
    with pytest.raises(ValueError, match="must hold 0 or 1"):
        pool(hidden, torch.full((2, 3), 0.5))
    with pytest.raises(ValueError, match="must be a float tensor"):
        pool(hidden.long(), torch.ones(2, 3))
    with pytest.raises(ValueError, match="must be a float tensor"):
        pool(hidden[0], torch.ones(3))


# --- search ----------------------------------------------------------------------------------------------------------


def test_top_k_against_torch() -> None:
    generator = torch.Generator().manual_seed(1)
    query, docs = torch.randn(8, generator=generator), torch.randn(20, 8, generator=generator)
    docs *= torch.arange(1, 21)[:, None]  # lengths that a plain product would rank by
    scores, indices = cosine_top_k(query, docs, 5)
    expected = torch.nn.functional.cosine_similarity(query[None], docs).topk(5)
    assert torch.equal(indices, expected.indices)
    assert torch.allclose(scores, expected.values, atol=1e-6)


def test_zero_vectors_score_zero_and_ties_keep_their_order() -> None:
    docs = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    scores, indices = cosine_top_k(torch.tensor([2.0, 0.0]), docs, 4)
    assert indices.tolist() == [3, 0, 2, 1]
    assert scores.tolist() == [1.0, 0.0, 0.0, -1.0]
    scores, indices = cosine_top_k(torch.zeros(2), docs, 2)
    assert (scores.tolist(), indices.tolist()) == ([0.0, 0.0], [0, 1])


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_very_short_and_very_long_vectors_have_a_direction(size: float) -> None:
    scores, _ = cosine_top_k(torch.tensor([3.0, 4.0]) * size, torch.tensor([[4.0, 3.0]]) * size, 1)
    assert scores[0] == pytest.approx(24 / 25)


def test_half_precision_and_whole_numbers_are_taken_too() -> None:
    scores, _ = cosine_top_k(torch.tensor([300, 400]), torch.tensor([[400.0, 300.0]], dtype=torch.float16), 1)
    assert scores[0] == pytest.approx(24 / 25, abs=1e-6)


def test_search_refuses_what_does_not_fit() -> None:
    query, docs = torch.ones(3), torch.ones(2, 3)
    for k, message in [(0, "at least 1"), (3, "at most the number of documents, 2"), (1.5, "whole number")]:
        with pytest.raises(ValueError, match=message):
            cosine_top_k(query, docs, k)  # type: ignore[arg-type]
    for wrong in (torch.ones(2), torch.ones(1, 3)):
        with pytest.raises(ValueError, match="with the same d"):
            cosine_top_k(wrong, docs, 1)
    with pytest.raises(ValueError, match="no finite numbers"):
        cosine_top_k(query, docs * math.nan, 1)


def test_recall_by_hand() -> None:
    ranked, relevant = [["a", "b", "c"], ["b", "b", "a"]], [["c"], ["a", "b"]]
    assert [recall_at_k(ranked, relevant, k) for k in (1, 2, 3, 9)] == [0.25, 0.25, 1.0, 1.0]
    assert recall_at_k([[1, 2]], [[2, 2, 3]], 2) == 0.5  # each id once


def test_recall_refuses_what_is_not_defined() -> None:
    for ranked, relevant, k, message in [
        ([], [], 1, "at least one query"),
        ([["a"]], [], 1, "relevant ids for 0 queries"),
        ([["a"]], [[]], 1, "query 0 has nothing relevant"),
        ([["a"]], [["a"]], 0, "at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            recall_at_k(ranked, relevant, k)


# --- the decoder -----------------------------------------------------------------------------------------------------


def test_token_rows_are_the_mean_of_the_tables_rows(primer) -> None:
    found = token_rows(primer, TEXTS)
    for vector, text in zip(found, TEXTS, strict=True):
        ids = primer.tokenizer.encode(text, bos=False)
        by_hand = sum(primer.model.embed_tokens.weight[i] for i in ids) / len(ids)
        assert torch.allclose(vector, by_hand, atol=1e-6)


def test_token_rows_do_not_know_the_order(primer) -> None:
    first, second = token_rows(primer, [" the dog saw the cat", " the cat saw the dog"])
    assert torch.allclose(first, second, atol=1e-6)
    first, second = hidden_states(primer, [" the dog saw the cat", " the cat saw the dog"], pooling="mean")
    assert (first - second).abs().max() > 0.1


def test_hidden_states_of_every_layer_are_those_of_transformers() -> None:
    require("transformers")
    from transformers import LlamaForCausalLM

    primer = kvlab.load("primer", "cpu", torch.float64)  # theirs has its RoPE frequencies in float32 all the same
    theirs = LlamaForCausalLM.from_pretrained(data_dir() / "primer" / "target", dtype=torch.float64)
    by_layer = [hidden_states(primer, TEXTS, layer) for layer in (*range(primer.config.n_layers), None)]
    means = hidden_states(primer, TEXTS, 3, "mean")
    for row, text in enumerate(TEXTS):
        ids = torch.tensor([primer.tokenizer.encode(text)])
        with torch.no_grad():
            expected = theirs(ids, output_hidden_states=True).hidden_states  # the last of them after the final norm
        for ours, states in zip(by_layer, expected, strict=True):
            assert (ours[row] - states[0, -1]).abs().max() < 1e-5 * max(1, states.abs().max())
        assert (means[row] - expected[3][0].mean(0)).abs().max() < 1e-5


def test_the_last_hidden_state_gives_the_models_logits(primer) -> None:
    logits = primer.lm_head(hidden_states(primer, TEXTS))
    for row, text in enumerate(TEXTS):
        assert (logits[row] - primer(torch.tensor(primer.tokenizer.encode(text)))[-1]).abs().max() < 1e-4


def test_more_texts_than_one_pass_takes(primer) -> None:
    many = [f"Tom saw {n} cats" for n in range(20)]
    assert torch.allclose(hidden_states(primer, many)[17], hidden_states(primer, many[17:18])[0], atol=1e-5)


def test_bank_is_one_row_and_two_hidden_states(primer) -> None:
    bank = word_states(primer, "bank", [*TEXTS[:2], "Tom took money from the bank."])
    assert bank.token == " bank"
    assert torch.equal(bank.row, primer.model.embed_tokens.weight[bank.token_id])
    assert all(torch.equal(state, bank.row) for state in bank.states[0])
    river_money, money_money = bank.cosines(0, 1), bank.cosines(1, 2)
    assert len(river_money) == primer.config.n_layers + 1
    assert river_money[0] == pytest.approx(1.0, abs=1e-6)
    assert river_money[-1] < 0.5 < 0.7 < money_money[-1]


def test_the_place_of_a_word_is_counted_in_bytes(primer) -> None:
    tokenizer = primer.tokenizer
    text = "\u00e9\U0001f469\u200d\U0001f467 Tom saw the bank, a bank"
    ids = tokenizer.encode(text)
    place = last_token_of(tokenizer, ids, text, "bank")
    assert tokenizer.pieces(ids)[place] == " bank"
    assert tokenizer.decode(ids[: place + 1]) == text[: text.index(",")]


def test_bad_input_to_the_decoder_is_named(primer) -> None:
    for texts, message in [([], "at least one string"), ("a text", "list of"), (["a", ""], "at least one token")]:
        for call in (token_rows, hidden_states):
            with pytest.raises(ValueError, match=message):
                call(primer, texts)
    with pytest.raises(ValueError, match="layer must be at most 8"):
        hidden_states(primer, TEXTS, 9)
    with pytest.raises(ValueError, match="layer must be at least 0"):
        hidden_states(primer, TEXTS, -1)
    with pytest.raises(ValueError, match="pooling must be one of last, mean"):
        hidden_states(primer, TEXTS, pooling="max")
    with pytest.raises(ValueError, match="exceeds the window of"):
        hidden_states(primer, ["a " * primer.config.max_len])
    with pytest.raises(ValueError, match="does not hold the word 'river'"):
        word_states(primer, "river", TEXTS)
    with pytest.raises(ValueError, match="not the same token in all texts"):
        word_states(primer, "bank", ["bank", "the bank"])
    with pytest.raises(ValueError, match="this model has no tokenizer"):
        token_rows(kvlab.random_model(primer.config, "cpu"), TEXTS)


def test_a_layer_is_only_run_when_it_is_asked_for(primer) -> None:
    states = every_layer(primer, torch.tensor([[0, 1]]))
    assert next(states).shape == (1, 2, primer.config.d_model)


# --- the encoder -----------------------------------------------------------------------------------------------------

SENTENCES = [
    "mom washed the frame",
    "The mother cleaned the frame.",
    "dad repaired the car",
    "\u041c\u0430\u043c\u0430 \u043c\u044b\u043b\u0430 \u0440\u0430\u043c\u0443",
    "caf\u00e9 cafe\u0301 \U0001f469\u200d\U0001f467",
    "",
]


def test_the_encoder_is_transformers_bert(minilm) -> None:
    require("transformers")
    from transformers import AutoTokenizer, BertModel

    folder = models.path("minilm")
    theirs = BertModel.from_pretrained(folder).eval()
    ids, mask = minilm.ids(SENTENCES)
    expected_ids = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    assert torch.equal(ids, expected_ids["input_ids"])
    assert torch.equal(mask, expected_ids["attention_mask"])
    with torch.no_grad():
        expected = theirs(input_ids=ids, attention_mask=mask).last_hidden_state
        assert ((minilm(ids, mask) - expected).abs() * mask[..., None]).max() < 1e-5


def test_sentences_alike_are_near_and_batches_do_not_matter(minilm) -> None:
    vectors = minilm.encode(SENTENCES)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(len(SENTENCES)), atol=1e-6)
    assert float(vectors[0] @ vectors[1]) > 0.8 > 0.4 > float(vectors[0] @ vectors[2])
    assert torch.allclose(minilm.encode(SENTENCES, batch=2), vectors, atol=1e-5)


def test_case_and_accents_are_dropped_by_this_encoders_tokenizer(minilm) -> None:
    ids, _ = minilm.ids(["cafe", "Caf\u00e9", "cafe\u0301"])
    assert ids.tolist() == [ids[0].tolist()] * 3


def test_a_long_text_is_cut(minilm) -> None:
    ids, _ = minilm.ids(["word " * 400])
    assert ids.shape == (1, 256)


def test_bad_input_to_the_encoder_is_named(minilm) -> None:
    for texts, message in [
        ([], "at least one string"),
        ("a", "list of"),
        ([3], "must be a string"),
        (["\ud800"], "lone"),
    ]:
        with pytest.raises(ValueError, match=message):
            minilm.encode(texts)


def test_an_encoder_that_is_not_here_or_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path))
    with pytest.raises(ValueError, match="run `kvlab models add minilm` first"):
        MiniLM.load()
    with pytest.raises(ValueError, match=r"damaged or of another kind .*kvlab models remove minilm"):
        MiniLM.load(tmp_path)
    with pytest.raises(ValueError, match=r"damaged or of another kind"):
        MiniLM.load(data_dir() / "primer" / "target")


@settings(max_examples=10, deadline=None)
@given(st.text("ab \u00e9e\u0301\U0001f469\u200d", max_size=10))
def test_any_text_has_a_finite_vector(minilm, text: str) -> None:
    assert bool(torch.isfinite(minilm.encode([text])).all())


def test_the_last_token_of_a_long_text_in_sixteen_bits() -> None:
    """bfloat16 holds no odd number above 256, so positions must not be counted in it."""
    for length in (257, 258, 301, 558):
        hidden = torch.zeros(1, 600, 1, dtype=torch.bfloat16)
        hidden[0, length - 1] = 1
        assert last_token_pool(hidden, (torch.arange(600) < length)[None]).item() == 1


def test_padding_does_not_leak_and_sixteen_bits_do_not_overflow() -> None:
    hidden = torch.ones(1, 3, 2)
    hidden[0, 2] = torch.nan
    assert mean_pool(hidden, torch.tensor([[1, 1, 0]])).tolist() == [[1, 1]]
    assert mean_pool(torch.full((1, 3, 2), 40000.0).half(), torch.ones(1, 3)).tolist() == [[40000, 40000]]
