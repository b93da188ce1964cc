"""What the primer models can do, as figures: perplexity, recall over a distance, binding of names, draft acceptance."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
import torch.nn.functional as F

from kvlab.cache import PreallocatedCache
from kvlab.generate import decode_step, generate_cached, prefill
from kvlab.model import Llama
from kvlab.primer import corpus, dataset, words
from kvlab.primer.writer import Writer, a, filler
from kvlab.tokenizer import Tokenizer

BANDS = ((0, 32), (32, 64), (64, 128), (128, 192), (192, 256), (256, 384))
PROMPTS = (
    "Long ago there was a brave boy named Felix.",
    "Rosa had an old goat named Pepper.",
    "It was a sunny day. Tom and his friend Anna wanted to go to the river.",
    "mom washed the",
    "Grandma asked Nick to go to the market.",
    "Once there was a shy girl named Vera. Vera had a green kite.",
)


@dataclass(frozen=True)
class Needle:
    """A prompt that ends before the answer, the answer's token, and how many tokens back it was last named."""

    ids: list[int]
    answer: int
    distance: int


def secret_needle(r: Writer, tokenizer: Tokenizer, n_between: int) -> Needle:
    word = r.pick(words.SECRETS)
    between = [filler(r) for _ in range(n_between)]
    start = f"The secret word is {word}. Do not forget it."
    return _needle(tokenizer, start, between, "What is the secret word? The secret word is", word)


def animal_needle(r: Writer, tokenizer: Tokenizer, n_between: int) -> Needle:
    animal, name = r.pick(words.ANIMALS), r.pick(words.PET_NAMES)
    between = [filler(r) for _ in range(n_between)]
    start = f"This is a story about {a(r.pick(words.TRAITS))} {animal} named {name}."
    question = f"What was the name of the {animal}? The name of the {animal} was"
    return _needle(tokenizer, start, between, question, name)


MakeNeedle = Callable[[Writer, Tokenizer, int], Needle]


def needles(make: MakeNeedle, tokenizer: Tokenizer, band: tuple[int, int], n: int, seed: int = 11) -> list[Needle]:
    """`n` needles whose distance lies in [low, high)."""
    low, high = band
    writer = Writer(seed)
    found: list[Needle] = []
    while len(found) < n:
        needle = make(writer, tokenizer, writer.between(max(0, low // 9 - 3), high // 7))
        if low <= needle.distance < high:
            found.append(needle)
    return found


@torch.no_grad()
def recall(model: Llama, asked: Sequence[Needle], batch: int = 32) -> float:
    """Share of needles whose answer is the most likely next token."""
    ordered = sorted(asked, key=lambda needle: len(needle.ids))
    right = 0
    for part in _chunks(ordered, batch):
        ids = torch.full((len(part), max(len(x.ids) for x in part)), dataset.EOS)
        for row, needle in zip(ids, part, strict=True):
            row[: len(needle.ids)] = torch.tensor(needle.ids)  # padding stands right, where the mask hides it
        logits = model(ids)
        ends = torch.tensor([len(x.ids) - 1 for x in part])
        best = logits[torch.arange(len(part)), ends].argmax(-1)
        right += sum(int(b) == x.answer for b, x in zip(best, part, strict=True))
    return right / len(asked)


@torch.no_grad()
def held_out_perplexity(model: Llama, tokenizer: Tokenizer, n_documents: int = 1_200) -> float:
    """exp of the mean loss in nats over documents of the held-out seed, packed as in training, in float32."""
    rows = dataset.pack(dataset.encode(tokenizer, islice(corpus.documents(dataset.HELD_OUT_SEED), n_documents)), 513, 0)
    total, count = 0.0, 0
    data = torch.from_numpy(rows.astype(np.int64))
    for part in data.split(8):
        inputs, targets = part[:, :-1].clamp(min=0), part[:, 1:]
        kept = targets != dataset.IGNORED
        total += float(F.cross_entropy(model(inputs)[kept], targets[kept], reduction="sum"))
        count += int(kept.sum())
    return math.exp(total / count)


@torch.no_grad()
def repeated_name_loss(model: Llama, tokenizer: Tokenizer, n_documents: int = 300) -> float:
    """Mean loss in nats on the name that answers "What was the name of the …?", several named animals before it."""
    writer = Writer(21)
    losses = []
    for _ in range(n_documents):
        ids = tokenizer.encode(corpus.zoo(writer))
        asks = [i for i in range(3, len(ids)) if tokenizer.decode(ids[max(0, i - 7) : i]).endswith(" was")]
        answers = [i for i in asks if "The name of the" in tokenizer.decode(ids[max(0, i - 8) : i])]
        log_probs = model(torch.tensor(ids)).log_softmax(-1)
        losses += [-float(log_probs[i - 1, ids[i]]) for i in answers]
    return float(np.mean(losses))


@torch.no_grad()
def draft_acceptance(
    target: Llama, draft: Llama, prompts: Sequence[str] = PROMPTS, n_new: int = 120, k: int = 4
) -> dict[str, float]:
    """Greedy draft-and-verify, counted without timing it.

    acceptance: chance that a drafted token is right, given that those before it in its round were.
    tokens_per_pass: tokens gained for each pass of the target.
    """
    asked = right = rounds = gained = 0
    for prompt in prompts:
        run = generate_cached(target, prompt, n_new)
        cache = PreallocatedCache(draft.config, len(run.prompt_ids) + n_new + k)
        known, done = [*run.prompt_ids, *run.tokens], len(run.prompt_ids)
        while done < len(known):
            cache.truncate(min(cache.length, done - 1))
            logits = prefill(draft, known[cache.length : done], cache)
            accepted = 0
            while accepted < k and done + accepted < len(known):
                token, asked = int(logits.argmax()), asked + 1
                if token != known[done + accepted]:
                    break
                accepted += 1
                logits = decode_step(draft, token, cache)
            right, rounds = right + accepted, rounds + 1
            gain = min(accepted + 1, len(known) - done)
            gained, done = gained + gain, done + gain
    return {"acceptance": right / asked, "tokens_per_pass": gained / rounds}


def _needle(tokenizer: Tokenizer, start: str, between: Sequence[str], question: str, word: str) -> Needle:
    ids = tokenizer.encode(" ".join([start, *between, question]))
    answer = tokenizer.encode(f" {word}", bos=False)[0]
    # everything between the two places is neutral, so the last occurrence is the one in the first sentence
    where = max(i for i, token in enumerate(ids[: len(tokenizer.encode(start))]) if token == answer)
    return Needle(ids, answer, len(ids) - where)


def _chunks(items: Sequence, size: int) -> Iterator:
    for i in range(0, len(items), size):
        yield items[i : i + size]
