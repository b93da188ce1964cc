"""The retrieval set as it was written, the figures by hand, the methods, and the record of them."""

import dataclasses
import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import require
from kvlab import checksums
from kvlab.embeddings import methods, recorded
from kvlab.embeddings.methods import METHODS, Bm25, Dense, words
from kvlab.embeddings.retrieval import (
    KINDS,
    SEARCH,
    TWINS,
    Passage,
    Query,
    RetrievalSet,
    equal_endings,
    judge,
    retrieval_set,
)
from kvlab.embeddings.search import cosines
from kvlab.paths import data_dir
from real_models import require_model

FILE = data_dir() / "retrieval.json"
# Taken when the texts were written, before any model or search method had seen them. A new digest is a new set: then
# every figure that was measured on it has to be measured again, and the file has to say so.
AS_WRITTEN = "a3ecc1f1ea38a792a3d5c6f00d1723702f5e43bf8f91d8c1bc228fdbb45d3400"
SET = retrieval_set()
TEXTS = {passage.id: passage.text for passage in SET.passages}


# --- the set ---------------------------------------------------------------------------------------------------------


def test_the_set_is_the_one_that_was_written() -> None:
    assert checksums.sha256(FILE) == AS_WRITTEN
    content = json.loads(FILE.read_text("utf-8"))
    assert content["written"] == "2026-11-30"
    assert "No model and no search method had been run" in content["honesty"]


def test_its_shape() -> None:
    assert len(SET.passages) >= 60 and len(SET.queries) >= 60
    assert Counter(query.kind for query in SET.queries) == dict.fromkeys(KINDS, 16)
    texts = [*TEXTS.values(), *(query.text for query in SET.queries)]
    assert len(set(texts)) == len(texts) and max(map(len, texts)) <= 120
    used = {i for query in SET.queries for i in (*query.relevant, query.rival)}
    assert set(TEXTS) <= used, "a passage that no query asks for"


def test_every_kind_is_what_it_is_called() -> None:
    for query in SET.queries:
        (right,) = query.relevant
        asked, answer = set(words(query.text)), set(words(TEXTS[right]))
        if query.kind == "paraphrase":
            assert query.rival is None
            continue
        rival = set(words(TEXTS[query.rival]))
        if query.kind == "homonym":
            assert query.id.split("-")[1] in asked & answer & rival
        elif query.kind == "distractor":
            assert len(asked & rival) > len(asked & answer)
        else:
            partner = next(other for other in SET.queries if other.relevant == (query.rival,))
            assert (partner.kind, partner.rival) == (query.kind, right)


def test_word_order_twins_have_the_same_words() -> None:
    twins = [query for query in SET.queries if query.kind == "word order"]
    for query in twins:
        assert sorted(words(TEXTS[query.relevant[0]])) == sorted(words(TEXTS[query.rival]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["passages"].append(c["passages"][0]), "same id"),
        (lambda c: c["queries"][0].update(relevant=["p99"]), "passages that exist"),
        (lambda c: c["queries"][0].update(relevant=[]), "passages that exist"),
        (lambda c: c["queries"][0].update(kind="riddle"), "of kind 'riddle'"),
        (lambda c: c["queries"][-1].update(rival=None), "names no twin"),
        (lambda c: c["queries"][0].pop("text"), "text"),
        (lambda c: c.pop("queries"), "queries"),
    ],
)
def test_a_damaged_set_is_named(change, message: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    content = json.loads(FILE.read_text("utf-8"))
    change(content)
    (tmp_path / "set.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(ValueError, match=rf"set\.json is damaged .*{message}"):
        retrieval_set(tmp_path / "set.json")


# --- the figures -----------------------------------------------------------------------------------------------------

SMALL = RetrievalSet(
    tuple(Passage(f"p{i}", f"text {i}") for i in range(4)),
    (
        Query("q1", "paraphrase", "one", ("p1",), None),
        Query("q2", "homonym", "two", ("p2",), "p3"),
        Query("q3", "negation", "three", ("p0",), "p1"),
        Query("q4", "negation", "four", ("p1",), "p0"),
        Query("q5", "word order", "five", ("p2",), "p3"),
    ),
)


def test_figures_by_hand() -> None:
    scores = torch.tensor([[3, 2, 1, 0], [3, 2, 1, 0], [2, 1, 0, 0], [2, 1, 0, 0], [0, 0, 1, 1.00005]])
    result = judge("hand", scores, SMALL, [1.0, 2.0, 9.0])
    assert [verdict.rank for verdict in result.verdicts] == [2, 3, 1, 2, 2]
    assert result.recall(1) == 0 and result.recall(2) == 0.5 and result.recall(3) == 1
    assert result.mrr() == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert result.recall(1, "negation") == 0.5
    assert result.twins() == (1, 1, 1)
    assert (result.twins("negation"), result.twins("word order")) == ((1, 0, 1), (0, 1, 0))
    assert result.twins("homonym") == (1, 0, 0)
    assert result.latency_ms == 2.0
    assert judge("hand", scores, SMALL).latency_ms is None
    with pytest.raises(ValueError, match="no query of kind 'distractor'"):
        result.recall(1, "distractor")


def test_scores_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(queries, passages\) = \(5, 4\)"):
        judge("hand", torch.ones(4, 5), SMALL)
    with pytest.raises(ValueError, match="no finite numbers"):
        judge("hand", torch.full((5, 4), torch.nan), SMALL)


# --- the methods -----------------------------------------------------------------------------------------------------


def test_bm25_by_its_formula() -> None:
    require("rank_bm25")
    texts = ["the cat sat", "the dog ran and the dog barked", "a bird flew far"]
    searcher = Bm25()
    searcher.index(texts)
    # dog: in 1 of 3 texts, twice in a text of 7 words where the mean length is 14/3
    idf, length = np.log((3 - 1 + 0.5) / (1 + 0.5)), 7 / (14 / 3)
    expected = idf * 2 * (1.5 + 1) / (2 + 1.5 * (1 - 0.75 + 0.75 * length))
    assert searcher.scores("Dog!").tolist() == pytest.approx([0, expected, 0])
    assert searcher.scores("nothing known").tolist() == [0, 0, 0]
    assert searcher.scores("").tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="a word in it"):
        searcher.index(["!", ""])


def test_words_are_runs_of_letters_in_any_script() -> None:
    assert words("Mom's 2 cats; \u041c\u0430\u043c\u0430!") == ["mom", "s", "2", "cats", "\u043c\u0430\u043c\u0430"]


def test_a_dense_method_searches_by_cosine() -> None:
    vectors = {"text 0": [1.0, 0], "text 1": [0, 2.0], "text 2": [3.0, 3.0], "text 3": [0.0, 0], "one": [0, 1.0]}
    vectors |= {name: [1.0, 1.0] for name in ("two", "three", "four", "five")}
    searcher = Dense(lambda texts: torch.tensor([vectors[text] for text in texts]))
    result, scores = methods.run("mine", searcher, SMALL)
    assert scores.shape == (5, 4) and len(result.query_ms) == 5 and min(result.query_ms) > 0
    assert scores[0].tolist() == pytest.approx([0, 1, 2**-0.5, 0])
    assert result.verdicts[0].rank == 1


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path))
    for name, command in [("rows", "smollm2"), ("last_hidden", "smollm2"), ("minilm", "minilm")]:
        assert not methods.is_available(name)
        with pytest.raises(ValueError, match=f"run `kvlab models add {command}` first"):
            methods.method(name)
    monkeypatch.setitem(sys.modules, "rank_bm25", None)
    with pytest.raises(ValueError, match="pip install rank-bm25"):
        Bm25().index(["a"])
    calls = (methods.method, methods.is_available, recorded.vectors, recorded.scores, recorded.recorded)
    for call in (*calls, recorded.with_equal_endings):
        with pytest.raises(ValueError, match="no method 'word2vec': choose one of bm25, rows"):
            call("word2vec")
    with pytest.raises(ValueError, match="only the scores are recorded"):
        recorded.vectors("bm25")
    with pytest.raises(ValueError, match="must be a list"):
        recorded.results("bm25")


# --- the record ------------------------------------------------------------------------------------------------------


def test_the_record_belongs_to_this_set_and_is_small() -> None:
    about = recorded.about()
    assert about["retrieval.json"] == AS_WRITTEN
    assert set(about["methods"]) == set(METHODS)
    for name, notes in about["methods"].items():
        assert len(notes["query_ms"]) == len(SET.queries)
        assert notes["from"] and all("==" in package for package in notes["from"])
        file = recorded.folder() / f"{name}.npz"
        assert file.stat().st_size < 300_000
        with np.load(file) as arrays:
            kinds = {array.dtype for array in arrays.values()}
        assert kinds == {np.dtype("float32" if name in recorded.WITHOUT_VECTORS else "float16")}


def test_the_recorded_figures_make_the_units_point() -> None:
    """Without any model: a trained encoder finds most, a decoder's vectors less than shared words, and twins are hard."""
    found = {result.method: result for result in recorded.results()}
    assert list(found) == list(METHODS)
    assert all(result.source == f"recorded {recorded.about()['made']}" for result in found.values())
    recall = {name: result.recall(5) for name, result in found.items()}
    assert recall["minilm"] > 0.9
    assert max(recall["rows"], recall["last_hidden"], recall["mean_hidden"]) < recall["bm25"] < 0.5
    assert found["bm25"].twins("word order") == (0, 16, 0), "the same words have the same score"
    assert found["rows"].twins("word order")[1] >= 12, "a mean of rows knows no order"
    for result in found.values():
        right, tied, wrong = result.twins()
        assert right + tied + wrong == 32 and right < 24, f"{result.method} reads negation and order"
    assert found["bm25"].row()["recall@5"] == recall["bm25"]


def test_equal_endings_add_a_full_stop_and_nothing_else() -> None:
    """The confounder that a reader found: all passages end in a full stop, 40 of the 48 search queries in no sign."""
    ended = equal_endings(SET)
    assert ended.passages == SET.passages and all(text.endswith(".") for text in TEXTS.values())
    changed = [(old, new) for old, new in zip(SET.queries, ended.queries, strict=True) if old != new]
    assert all(new.text == old.text + "." and old.text[-1].isalnum() for old, new in changed)
    assert sum(old.kind in SEARCH for old, _ in changed) == 40
    assert all(query.text[-1] in ".?!" for query in ended.queries)
    assert equal_endings(ended) == ended


def test_what_the_last_token_finds_depends_on_a_full_stop() -> None:
    """Without any model: MiniLM is unmoved, the language model's vectors find more than shared words, then still far less."""
    found = {name: recorded.with_equal_endings(name) for name in METHODS}
    recall = {name: result.recall(5) for name, result in found.items()}
    assert recall["last_hidden"] == 0.5 and recorded.recorded("last_hidden").recall(5) == 9 / 48
    assert recall["minilm"] == recorded.recorded("minilm").recall(5)
    assert recall["bm25"] == recorded.recorded("bm25").recall(5) < recall["mean_hidden"] < 0.6
    assert all(result.query_ms == () for result in found.values())
    notes = recorded.about()[recorded.ENDED]
    assert set(notes["from"]) == set(METHODS) and all("==" in p for names in notes["from"].values() for p in names)
    assert (recorded.folder() / f"{recorded.ENDED}.npz").stat().st_size < 300_000


def test_the_ended_queries_are_those_of_the_recorded_scores() -> None:
    queries, passages = recorded.ended_queries(), recorded.vectors("last_hidden")[0]
    again = judge("again", torch.stack([cosines(query, passages) for query in queries]), SET)
    assert again.recall(5) == recorded.with_equal_endings("last_hidden").recall(5)
    same = [i for i, query in enumerate(SET.queries) if query.text[-1] in ".?!"]
    assert torch.allclose(queries[same], recorded.vectors("last_hidden")[1][same], atol=0.05)


def test_a_model_gives_the_recorded_ended_query() -> None:
    require_model("smollm2")
    searcher = methods.method("last_hidden")
    assert isinstance(searcher, Dense)
    fresh = searcher.encode([equal_endings(SET).queries[1].text])[0]
    assert float(torch.cosine_similarity(fresh, recorded.ended_queries()[1], dim=0)) > 1 - 1e-5


def same_but_for_near_ties(live: torch.Tensor, kept: torch.Tensor) -> bool:
    return bool((live - kept).abs().max() < 1e-3)


def test_bm25_gives_the_recorded_scores() -> None:
    require("rank_bm25")
    (live, *_) = recorded.results(live=["bm25"])
    assert live.source == "run here"
    _, scores = methods.run("bm25", methods.method("bm25"), SET)
    assert torch.allclose(scores, recorded.scores("bm25"), atol=1e-4)
    assert live.twins() == recorded.recorded("bm25").twins()


@pytest.mark.parametrize("name", ["rows", "last_hidden", "minilm"])
def test_the_models_give_the_recorded_vectors(name: str) -> None:
    """A few texts of each; `python -m kvlab.embeddings.recorded` makes all."""
    require_model("minilm" if name == "minilm" else "smollm2")
    searcher = methods.method(name)
    passages, queries = recorded.vectors(name)
    assert passages.shape[0] == len(SET.passages) and queries.shape == (len(SET.queries), passages.shape[1])
    assert isinstance(searcher, Dense)
    for place in (0, 40, 95):
        fresh = searcher.encode([SET.passages[place].text])[0]
        assert float(torch.cosine_similarity(fresh, passages[place], dim=0)) > 1 - 1e-5
        assert (fresh - passages[place]).abs().max() < 1e-3 * fresh.abs().max()
    fresh = searcher.encode([SET.queries[7].text])[0]
    assert float(torch.cosine_similarity(fresh, queries[7], dim=0)) > 1 - 1e-5


@pytest.mark.full
def test_every_method_gives_the_recorded_result() -> None:
    require_model("minilm")
    require_model("smollm2")
    for name in METHODS:
        result, scores = methods.run(name, methods.method(name), SET)
        kept = recorded.recorded(name)
        assert same_but_for_near_ties(scores, recorded.scores(name)), name
        for kinds in ((), *((kind,) for kind in SEARCH)):
            assert abs(result.recall(5, *kinds) - kept.recall(5, *kinds)) <= 1 / 16, name
        assert max(abs(a - b) for a, b in zip(result.twins(*TWINS), kept.twins(*TWINS), strict=True)) <= 1, name


def test_a_damaged_record_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(recorded.folder(), tmp_path / "embeddings")
    monkeypatch.setattr(recorded, "folder", lambda: tmp_path / "embeddings")
    for content, message in [(b"no zip", "is damaged"), (b"PK\x03\x04", "is damaged"), (b"", "is damaged")]:
        (tmp_path / "embeddings" / "minilm.npz").write_bytes(content)
        with pytest.raises(ValueError, match=rf"minilm\.npz {message}"):
            recorded.vectors("minilm")
    (tmp_path / "embeddings" / "minilm.npz").unlink()
    with pytest.raises(ValueError, match=r"there is no minilm\.npz"):
        recorded.recorded("minilm")


def test_recorded_scores_judge_no_other_set() -> None:
    data = retrieval_set()
    turned = dataclasses.replace(data, passages=tuple(reversed(data.passages)))
    with pytest.raises(ValueError, match="another set"):
        recorded.recorded("minilm", turned)
    assert recorded.recorded("minilm", data).recall(5) > 0.9
