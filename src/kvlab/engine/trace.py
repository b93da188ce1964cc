"""A day at a server in small: requests that come at random, with prompts and answers of very different lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvlab.engine.engine import Engine, StepLog
from kvlab.engine.request import Request, State
from kvlab.sampling import SamplingSettings
from kvlab.validate import amount, whole


@dataclass(frozen=True)
class TraceSettings:
    """Log-normal lengths (a few are far longer than the median) and Poisson arrivals.

    prompt_median, answer_median: tokens. spread: standard deviation of the logarithm; 1 puts one in 40 above seven
    times the median. rate: requests per second; None lets all come at once. Lengths are cut at the maxima.
    """

    n_requests: int = 32
    prompt_median: int = 60
    answer_median: int = 30
    spread: float = 1.0
    prompt_max: int = 400
    answer_max: int = 200
    rate: float | None = None
    seed: int = 0


def heavy_tailed(settings: TraceSettings, vocab_size: int) -> list[Request]:
    """The requests of a trace, in order of arrival; equal settings give equal requests. Answers run to their length."""
    n = whole("n_requests", settings.n_requests, least=1)
    rng = np.random.default_rng(settings.seed)
    prompts = _lengths(rng, n, settings.prompt_median, settings.spread, settings.prompt_max)
    answers = _lengths(rng, n, settings.answer_median, settings.spread, settings.answer_max)
    gaps = rng.exponential(1.0, n)
    arrivals = np.zeros(n) if settings.rate is None else np.cumsum(gaps) / amount("rate", settings.rate, positive=True)
    width = len(str(n - 1))
    return [
        Request(
            f"{i:0{width}}",
            [int(token) for token in rng.integers(0, vocab_size, prompts[i])],
            max_new=int(answers[i]),
            settings=SamplingSettings(temperature=0),
            arrival=float(arrivals[i]),
            ignore_eos=True,
        )
        for i in range(n)
    ]


def _lengths(rng: np.random.Generator, n: int, median: int, spread: float, most: int) -> np.ndarray:
    drawn = np.exp(rng.normal(np.log(whole("median", median, least=1)), amount("spread", spread), n))
    return np.clip(drawn.round().astype(int), 1, whole("most", most, least=1))


@dataclass(frozen=True)
class Summary:
    """What a run was like. Times in seconds; p50 and p99 are quantiles over requests (TTFT) or over all gaps.

    utilisation: share of the computed rows that were no padding. waste: share of the reserved positions that held
    nothing, over time.
    """

    tokens: int
    seconds: float
    ttft_p50: float
    ttft_p99: float
    gap_p50: float
    gap_p99: float
    steps: int
    positions: int
    utilisation: float
    waste: float
    preemptions: int

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


def summarise(engine: Engine) -> Summary:
    """Figures over everything that an engine has served. Raises ValueError when nothing was finished."""
    requests = [request for request in engine.requests.values() if request.state is State.FINISHED]
    if not requests:
        raise ValueError("no request was finished, so there is nothing to sum up")
    log = engine.log
    gaps = [gap for request in requests for gap in request.gaps]
    computed = sum(step.n_tokens for step in log)
    return Summary(
        tokens=sum(len(request.output) for request in requests),
        seconds=log[-1].end - min(request.arrival for request in requests),
        ttft_p50=_quantile([request.ttft for request in requests], 0.5),
        ttft_p99=_quantile([request.ttft for request in requests], 0.99),
        gap_p50=_quantile(gaps, 0.5),
        gap_p99=_quantile(gaps, 0.99),
        steps=len(log),
        positions=computed,
        utilisation=1 - sum(step.n_padding for step in log) / computed,
        waste=waste(log),
        preemptions=sum(request.preemptions for request in requests),
    )


def waste(log: list[StepLog]) -> float:
    """Share of the reserved positions that held nothing, averaged over the steps; 0 where nothing was reserved.

    With a shared beginning, positions are counted once for each sequence that holds them, so it can fall below 0.
    """
    reserved = sum(step.positions_reserved for step in log)
    return 1 - sum(step.positions_held for step in log) / reserved if reserved else 0.0


def _quantile(values: list[float], share: float) -> float:
    return float(np.quantile(values, share)) if values else float("nan")
