"""The readable model's weights behind a fast decode step. Same interface, one sequence at a time, on a CPU."""

from __future__ import annotations

import os
import threading

import numpy as np
import torch

from kvlab.cache import KVCache, Layout, PreallocatedCache, check_fits
from kvlab.fast import prefill, step, weights
from kvlab.fast.team import Team
from kvlab.model import Llama, check_id, check_id_type
from kvlab.validate import whole

MOST_THREADS = 256
SMALL = 16 * 2**20  # bytes of weights below which one thread is faster than two that wait for each other


class FastLlama:
    """`FastLlama.from_model(model, "bf16")`, then as the readable model: `fast(ids, cache)`, or `generate_cached(fast, ...)`.

    One token is decoded by a compiled function (numba), several at once go through torch. Logits are float32, in
    "fp64" float64. Formats: fp64, fp32, bf16 (weights and cache), int8 (a scale per row) and int4 (a scale per 64 or 32
    weights, head in int8); the last two have a bf16 cache.
    """

    def __init__(self, packed: step.Weights, model: Llama, name: str, threads: int) -> None:
        self.config, self.tokenizer, self.format = model.config, model.tokenizer, name
        self.dtype, self.device = weights.FORMATS[name], torch.device("cpu")
        self.weights = packed
        # A quantised table that is both ends of the model is read as it is; any other is kept in the model's dtype.
        self._embedding = None if model.config.tied else model.model.embed_tokens.weight.detach().to(self.dtype)
        self._scratch = step.make_scratch(self.config, packed, threads)
        self._lock, self._pid = threading.Lock(), os.getpid()  # one scratch memory, so one caller at a time
        self._logits = np.zeros(self.config.vocab_size, self._scratch.x.dtype)
        self.team = Team(threads, self._scratch.counter)

    @classmethod
    def from_model(cls, model: Llama, dtype: str = "fp32", threads: int | None = None) -> FastLlama:
        """The same weights, fused and in the format `dtype`; `model` stays as it is and is not needed afterwards.

        threads: of the decode step; by default torch's number, or one for a model that fits into the cache.
        The first step compiles for some seconds; the result is kept on disk for later processes.
        """
        if not isinstance(dtype, str) or dtype not in weights.FORMATS:
            raise ValueError(f"dtype must be one of {', '.join(weights.FORMATS)}, got {dtype!r:.60}")
        if model.device.type != "cpu":
            raise ValueError(f"FastLlama computes on the CPU, but the model is on {model.device}: use model.to('cpu')")
        with torch.no_grad():
            packed = weights.pack(model, dtype)
        if threads is None:
            threads = torch.get_num_threads() if weights.weight_bytes(packed) > SMALL else 1
        threads = whole("threads", threads, least=1)
        if threads > MOST_THREADS:
            raise ValueError(f"threads must be at most {MOST_THREADS}, got {threads}")
        return cls(packed, model, dtype, threads)

    @property
    def threads(self) -> int:
        """Threads of the decode step."""
        return self.team.n

    @property
    def nbytes(self) -> int:
        """Bytes of the weights with their scales; a step reads all of them, but for an untied embedding table."""
        table = 0 if self._embedding is None else self._embedding.nbytes
        return weights.weight_bytes(self.weights) + table

    def layout(self, batch: int = 1) -> Layout:
        """What a cache must be made for to serve this model."""
        c = self.config
        return Layout(c.n_layers, batch, c.n_kv_heads, c.d_head, self.dtype, self.device)

    def new_cache(self, max_len: int | None = None) -> PreallocatedCache:
        """An empty cache of this model, by default for its whole window."""
        return PreallocatedCache(self.config, max_len, dtype=self.dtype)

    @torch.no_grad()
    def __call__(self, ids: torch.Tensor, cache: KVCache | None = None, last_only: bool = False) -> torch.Tensor:
        """Logits (n, vocab_size) of ids (n,), or (1, n, vocab_size) of (1, n), as the readable model gives them.

        The cache must be a PreallocatedCache. A pass that fails leaves it as it was. A long prompt is shared among our own
        threads, and torch's number of threads is 1 for as long as that takes.
        """
        flat = ids[0] if ids.dim() == 2 and ids.shape[0] == 1 else ids
        if flat.dim() != 1 or len(flat) == 0:
            raise ValueError(f"ids must be (n,) or (1, n) with at least one token, got shape {tuple(ids.shape)}")
        check_id_type(ids)
        if cache is None:
            self._check(flat, 0, self.config.max_len)
            cache = self.new_cache(len(flat))
        elif not isinstance(cache, PreallocatedCache):
            raise ValueError(f"FastLlama writes into a PreallocatedCache, got {type(cache).__name__}")
        check_fits(cache, self.layout())
        held = cache.length
        self._check(flat, held, min(self.config.max_len, cache.max_len))
        if self._pid != os.getpid():  # a forked process has a copy of the lock, maybe a locked one
            self._lock, self._pid = threading.Lock(), os.getpid()
        try:
            with self._lock:
                if len(flat) == 1:
                    logits = self._step(int(flat[0]), cache)[None]
                else:
                    logits = prefill.Pass(self, flat, cache, last_only).run()
        except BaseException:
            cache.truncate(held)
            raise
        return logits if ids.dim() == 1 else logits[None]

    def _step(self, token: int, cache: PreallocatedCache) -> torch.Tensor:
        position, scratch = cache.length, self._scratch
        scratch.x[:] = self.embed(torch.tensor([token]))[0].numpy()
        keys, values = (weights.as_array(room[:, 0]) for room in cache.storage)

        def job(t: int) -> None:
            step.decode(self.weights, scratch, keys, values, position, self._logits, t, self.team.n)

        self.team.run(job)
        cache.set_length(position + 1)
        return torch.from_numpy(self._logits.copy())  # the next step writes over the original

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of the embedding table, (n, d_model), in float32 (float64 for fp64)."""
        real = torch.float64 if self.format == "fp64" else torch.float32
        if self._embedding is not None:
            return self._embedding[ids].to(real)
        codes, scales = self.weights.head
        rows = weights.as_tensor(codes)[0][ids].to(real)
        return rows * torch.from_numpy(scales)[0][ids] if self.format.startswith("int") else rows

    def _check(self, ids: torch.Tensor, held: int, limit: int) -> None:
        low, high = (int(i) for i in ids.aminmax())
        check_id(low, self.config.vocab_size)
        check_id(high, self.config.vocab_size)
        if held + len(ids) > limit:
            raise ValueError(
                f"{held} positions held and {len(ids)} new ones exceed the window of {limit}: "
                f"shorten the prompt or generate fewer tokens"
            )
