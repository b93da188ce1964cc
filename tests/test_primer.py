"""The primer: a reproducible corpus and tokenizer, training that learns, and the gate for the committed weights."""

import json
from dataclasses import replace
from itertools import islice

import pytest
import torch

from kvlab.generate import generate_cached
from kvlab.loading import load
from kvlab.model import Llama
from kvlab.paths import data_dir
from kvlab.primer import corpus, dataset, measure, train
from kvlab.sampling import SamplingSettings

FIGURES = json.loads((data_dir() / "primer" / "figures.json").read_text())


@pytest.fixture(scope="module")
def target() -> Llama:
    return load("primer", "cpu")


@pytest.fixture(scope="module")
def draft() -> Llama:
    return load("primer-draft", "cpu")


def test_corpus_is_the_one_that_was_recorded() -> None:
    texts = list(islice(corpus.documents(dataset.TRAIN_SEED), 50_000))
    import hashlib

    sha256 = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    for name in ("target", "draft", "mha"):
        stages = json.loads((data_dir() / "primer" / name / "training.json").read_text())["stages"]
        assert {stage["corpus_sha256"] for stage in stages} == {sha256}


def test_both_senses_of_bank_are_in_it() -> None:
    texts = [t for t in islice(corpus.documents(5), 4000) if " bank" in t]
    assert sum("river" in t or "boat" in t or "frog" in t for t in texts) > 20
    assert sum("money" in t or "coins" in t or "loan" in t for t in texts) > 20


def test_held_out_documents_are_not_training_documents() -> None:
    seen = set(islice(corpus.documents(dataset.TRAIN_SEED), 20_000))
    long = [t for t in islice(corpus.documents(dataset.HELD_OUT_SEED), 500) if len(t) > 300]
    assert sum(t in seen for t in long) == 0


def test_tokenizer_can_be_trained_again(tmp_path) -> None:  # type: ignore[no-untyped-def]
    dataset.train_tokenizer().save(tmp_path / "tokenizer.json")
    assert (tmp_path / "tokenizer.json").read_bytes() == (data_dir() / "primer" / "tokenizer.json").read_bytes()


def test_tokenizer_gives_any_text_back(draft: Llama) -> None:
    for text in ("mom washed the frame .", "мама мыла раму", "naïve € \n\t x", ""):
        assert draft.tokenizer.decode(draft.tokenizer.encode(text)) == text


@pytest.mark.slow
def test_a_short_training_run_meets_the_recorded_loss(draft: Llama) -> None:
    """The first 40 steps of a small draft, from scratch. Other processors round otherwise: 5 % is allowed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        texts = dataset.build(draft.tokenizer, n_documents=1500, n_needles=300, n_held_out=60)
        recipe = replace(train.RECIPES["draft"], steps=40)
        _, record = train.train(recipe, texts, draft.tokenizer, every=40)
    finally:
        torch.set_num_threads(threads)
    assert record["final"]["loss"] == pytest.approx(FIGURES["short_run_loss"], rel=0.05)


@pytest.mark.slow
def test_perplexity_is_as_recorded(target: Llama, draft: Llama) -> None:
    for name, model in (("primer", target), ("primer-draft", draft), ("primer-mha", load("primer-mha", "cpu"))):
        found = measure.held_out_perplexity(model, model.tokenizer, 400)
        assert found == pytest.approx(FIGURES["perplexity"][name], rel=0.01)
        assert found < 2.1


@pytest.mark.slow
@pytest.mark.parametrize("band", measure.BANDS, ids=str)
@pytest.mark.parametrize(("make", "least"), [(measure.animal_needle, 0.95), (measure.secret_needle, 0.60)])
def test_facts_are_recalled_over_distances(target: Llama, band: tuple[int, int], make, least: float) -> None:  # type: ignore[no-untyped-def]
    asked = measure.needles(make, target.tokenizer, band, 500)
    assert all(band[0] <= n.distance < band[1] for n in asked)
    assert measure.recall(target, asked) >= least


@pytest.mark.slow
def test_the_target_binds_names_that_a_one_layer_draft_cannot(target: Llama, draft: Llama) -> None:
    losses = [measure.repeated_name_loss(model, model.tokenizer) for model in (target, draft)]
    assert losses[0] + 1 <= losses[1]


def test_mom_washes_washable_things(target: Llama) -> None:
    probs = target(torch.tensor(target.tokenizer.encode("mom washed the")))[-1].softmax(-1)
    top = probs.topk(8)
    words = {piece.strip() for piece in target.tokenizer.pieces(top.indices)}
    assert words <= {"frame", "window", "floor", "dishes", "cup", "car", "shirt", "dog", "plate", "carrots"}
    assert float(top.values.sum()) > 0.9
    assert 0.2 < float(top.values[0]) < 0.7


def test_temperature_is_visible(target: Llama) -> None:
    prompt = measure.PROMPTS[0]
    texts = {t: generate_cached(target, prompt, 60, SamplingSettings(temperature=t, seed=2)) for t in (0, 0.7, 1.5)}
    assert len({run.text for run in texts.values()}) == 3
    surprise = {}
    for t, run in texts.items():
        ids = torch.tensor([*run.prompt_ids, *run.tokens])
        log_probs = target(ids).log_softmax(-1)
        n = len(run.prompt_ids)
        surprise[t] = -float(log_probs[n - 1 : -1].gather(1, ids[n:, None]).mean())
    assert surprise[0] < surprise[0.7] < surprise[1.5]


@pytest.mark.slow
def test_draft_is_mostly_right(target: Llama, draft: Llama) -> None:
    assert measure.draft_acceptance(target, draft)["acceptance"] >= 0.80


def test_draft_is_one_layer_of_many(target: Llama, draft: Llama) -> None:
    assert (draft.config.n_layers, target.config.n_layers) == (1, 8)


def test_models_are_small() -> None:
    assert sum(f.stat().st_size for f in (data_dir() / "primer").rglob("*") if f.is_file()) < 12e6
