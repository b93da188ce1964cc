"""The glossary: all words of the course's vocabulary are explained, and lookups help."""

import re

import pytest

from helpers import ROOT
from kvlab import glossary

VOCABULARY = """
attention, attention map, causal mask, dimension, distribution, dot product, embedding, GPU, gradient, hard pointer,
head, key, key axis, layer, layer norm, logits, matrix, negative infinity, one-hot, output projection, parameter,
positional encoding, projection, query, residual stream, retrieval layer, saturating, scale, score matrix,
soft alignment, softmax, token, value, variance, vector, weighted sum, weights
"""
UNIT_01 = "KV cache, prefill, decode, MHA, GQA, MQA, RoPE, window, GB, GiB, TTFT, MAC, FLOP, drift, batch"
WANTED = [term.strip() for term in f"{VOCABULARY}, {UNIT_01}".replace("\n", " ").split(",")]


@pytest.mark.parametrize("term", WANTED)
def test_term_is_explained_in_a_sentence_or_two(term: str) -> None:
    text = glossary.explain(term)
    assert text.endswith(".") and 30 < len(text) < 260
    assert "$" not in text


def test_every_word_of_the_vocabulary_is_at_work_in_the_notebook_that_it_names() -> None:
    wanted = {term.strip() for term in VOCABULARY.replace("\n", " ").split(",")}
    named = {term: (text, unit) for term, text, unit in glossary.vocabulary().rows}
    for term in sorted(wanted):
        text, unit = named[term]
        (path,) = (ROOT / "grading" / "units").glob(f"{unit}_*.py")
        shown = re.sub(r"[*\s#]+", " ", path.read_text("utf-8"))
        assert re.search(rf"\b{re.escape(term)}s?\b", shown, re.I), f"{term}: notebook {unit} never says it"
        assert text == glossary.explain(term)


def test_case_and_plural_do_not_matter() -> None:
    assert glossary.explain("kv CACHE") == glossary.explain("KV cache")
    assert glossary.explain("tokens") == glossary.explain("token")
    assert glossary.explain("logit") == glossary.explain("logits")


def test_unknown_word_suggests_near_ones() -> None:
    with pytest.raises(ValueError, match="score matrix"):
        glossary.explain("score")
    with pytest.raises(ValueError, match="lists them"):
        glossary.explain("zebra")


def test_show_keeps_the_order_and_has_both_forms() -> None:
    table = glossary.show(["token", "GQA"])
    assert [row[0] for row in table.rows] == ["token", "GQA"]
    bundle = table._repr_mimebundle_()
    assert bundle["text/html"].count("<tr>") == 3 and "<details>" not in bundle["text/html"]
    assert "GQA" in bundle["text/plain"]
    assert len(glossary.show().rows) == len(glossary.terms()) > 60


def test_entries_are_validated() -> None:
    with pytest.raises(ValueError, match="twice"):
        glossary.validate([{"term": "a", "text": "b"}, {"term": "A", "text": "c"}])
    with pytest.raises(ValueError, match="exactly"):
        glossary.validate([{"term": "a"}])
    with pytest.raises(ValueError, match="one of 01"):
        glossary.validate([{"term": "a", "text": "b", "unit": "9"}])
    with pytest.raises(ValueError, match="empty"):
        glossary.validate([{"term": "a", "text": " "}])
