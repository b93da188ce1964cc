"""Traces repeat, are heavy-tailed, and their summaries count what happened."""

import numpy as np
import pytest

from kvlab.engine import Engine, StepClock
from kvlab.engine.trace import TraceSettings, heavy_tailed, summarise
from test_engine import MODEL


def test_a_trace_repeats_and_another_seed_differs():
    first, again = (heavy_tailed(TraceSettings(8, rate=2.0), 50) for _ in range(2))
    other = heavy_tailed(TraceSettings(8, rate=2.0, seed=1), 50)
    assert [(r.prompt, r.max_new, r.arrival) for r in first] == [(r.prompt, r.max_new, r.arrival) for r in again]
    assert [r.prompt for r in first] != [r.prompt for r in other]
    assert [r.arrival for r in first] == sorted(r.arrival for r in first)


def test_lengths_are_log_normal_and_arrivals_poisson():
    made = heavy_tailed(TraceSettings(4000, prompt_max=10**6, answer_max=10**6, rate=5.0), 50)
    logs = np.log([len(r.prompt) for r in made])
    assert abs(logs.mean() - np.log(60)) < 0.06 and abs(logs.std() - 1) < 0.06
    gaps = np.diff([r.arrival for r in made])
    assert abs(gaps.mean() - 0.2) < 0.02 and abs(gaps.std() / gaps.mean() - 1) < 0.1
    assert all(r.arrival == 0 for r in heavy_tailed(TraceSettings(5), 50))


def test_continuous_batching_needs_fewer_steps_and_wastes_less():
    found = {}
    for policy in ("static", "continuous", "chunked"):
        engine = Engine(MODEL, 60, 4, policy, max_seqs=4, token_budget=24, clock=StepClock(1.0, 0.01))
        trace = TraceSettings(16, prompt_median=8, answer_median=8, prompt_max=40, answer_max=60, seed=3)
        engine.run(heavy_tailed(trace, 50))
        found[policy] = summarise(engine)
    static, continuous, chunked = found.values()
    assert static.tokens == continuous.tokens == chunked.tokens
    assert continuous.tokens_per_second > 1.3 * static.tokens_per_second
    assert static.utilisation < 0.95 and continuous.utilisation == chunked.utilisation == 1
    assert static.waste > 2 * continuous.waste > 0
    assert chunked.gap_p99 <= continuous.gap_p99
    assert static.steps > continuous.steps


def test_bad_settings_are_refused():
    for bad in (TraceSettings(0), TraceSettings(3, prompt_median=0), TraceSettings(3, rate=0.0)):
        with pytest.raises(ValueError):
            heavy_tailed(bad, 50)
    with pytest.raises(ValueError, match="nothing to sum up"):
        summarise(Engine(MODEL))
