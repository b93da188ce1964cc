"""From documents to rows of token ids: the tokenizer is trained here, documents are encoded and packed."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, pre_tokenizers, trainers

from kvlab.primer import corpus
from kvlab.tokenizer import Tokenizer

SPECIAL = ("<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>")
BOS, EOS = 0, 1
IGNORED = -1  # a target that no loss is taken for
TRAIN_SEED, NEEDLE_SEED, HELD_OUT_SEED, BINDING_SEED, LONG_SEED = 1, 2, 3, 4, 5
Rows = NDArray[np.int16]


@dataclass(frozen=True)
class Corpus:
    """Token rows, each one longer than its inputs, since row[1:] are the targets of row[:-1]."""

    packed: Rows  # (n, 513): whole documents side by side
    short: Rows  # (n, 97): one document a row
    binding: Rows  # (n, 97): several documents of names to be told apart in a row
    long: Rows  # (n, 513): facts asked about after a long middle
    held_out: Rows  # (n, 513)
    sha256: str  # of the training documents


def train_tokenizer(n_documents: int = 12_000, vocab_size: int = 1536) -> Tokenizer:
    """Byte-level BPE (Sennrich et al., 2016) on the first training documents, role tokens taken out."""
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = islice(corpus.documents(TRAIN_SEED), n_documents)
    inner.train_from_iterator((_plain(t) for t in texts), trainer)
    return Tokenizer(inner)


def build(tokenizer: Tokenizer, n_documents: int = 50_000, n_needles: int = 20_000, n_held_out: int = 1_200) -> Corpus:
    """Everything a training run reads. The same arguments give the same rows."""
    texts = list(islice(corpus.documents(TRAIN_SEED), n_documents))
    documents = encode(tokenizer, texts)
    needles = encode(tokenizer, islice(corpus.short_needles(NEEDLE_SEED), n_needles))
    held_out = encode(tokenizer, islice(corpus.documents(HELD_OUT_SEED), n_held_out))
    return Corpus(
        packed=pack(documents, 513, seed=0),
        short=one_per_row([*documents[: 2 * n_needles], *needles], 97),
        binding=pack(encode(tokenizer, islice(corpus.binding_documents(BINDING_SEED), n_needles)), 97, seed=0),
        long=one_per_row(encode(tokenizer, islice(corpus.long_needles(LONG_SEED), n_needles // 10)), 513),
        held_out=pack(held_out, 513, seed=0),
        sha256=hashlib.sha256("\n".join(texts).encode()).hexdigest(),
    )


def encode(tokenizer: Tokenizer, texts: Iterable[str]) -> list[Rows]:
    """Ids of each document between a begin and an end token."""
    encoded: list[Rows] = []
    for part in _chunks(texts, 2000):
        encoded += [np.array([BOS, *ids, EOS], np.int16) for ids in tokenizer.encode_batch(part)]
    return encoded


def pack(documents: list[Rows], width: int, seed: int, pool_size: int = 300) -> Rows:
    """Whole documents into rows of `width`, best fit first; the little room left over is IGNORED."""
    rng = np.random.default_rng(seed)
    waiting = iter([documents[i][:width] for i in rng.permutation(len(documents))])
    pool = sorted(islice(waiting, pool_size), key=len)
    rows = []
    while pool:
        row = [pool.pop(rng.integers(len(pool)))]
        free = width - len(row[0])
        while pool and len(pool[0]) <= free:
            fitting = sum(len(d) <= free for d in pool)
            row.append(pool.pop(fitting - 1 if rng.random() < 0.5 else rng.integers(fitting)))
            free -= len(row[-1])
        rows.append(_padded(np.concatenate(row), width))
        pool = sorted([*pool, *islice(waiting, pool_size - len(pool))], key=len)
    return np.stack(rows)


def one_per_row(documents: list[Rows], width: int) -> Rows:
    return np.stack([_padded(d[:width], width) for d in documents])


def _padded(ids: Rows, width: int) -> Rows:
    row = np.full(width, IGNORED, np.int16)
    row[: len(ids)] = ids
    return row


def _plain(text: str) -> str:
    for name in SPECIAL:
        text = text.replace(name, " ")
    return text


def _chunks(texts: Iterable[str], size: int) -> Iterator[list[str]]:
    source = iter(texts)
    while part := list(islice(source, size)):
        yield part
