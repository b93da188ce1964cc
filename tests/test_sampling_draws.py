"""Draws against theory by chi-square, the theory by transformers; filters on ties; and the numbers that describe both."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as checked
from hypothesis import strategies as st
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from kvlab import faults, sampling
from kvlab.sampling import SamplingSettings, draw, next_token_probs
from kvlab.sampling.measures import (
    chi_square,
    chi_square_limit,
    odds_factor,
    probability_with_bias,
    token_probability,
    tokens_in_nucleus,
    tokens_left_out,
)

N_DRAWS = 200_000
CONTEXT = [3, 3, 17, 40]
SETUPS = {
    "plain": ({}, []),
    "cold": ({"temperature": 0.6}, [TemperatureLogitsWarper(0.6)]),
    "hot": ({"temperature": 1.8}, [TemperatureLogitsWarper(1.8)]),
    "top-k": ({"top_k": 7}, [TopKLogitsWarper(7)]),
    "top-p": ({"top_p": 0.85}, [TopPLogitsWarper(0.85)]),
    "min-p": ({"min_p": 0.08}, [MinPLogitsWarper(0.08)]),
    "penalty": ({"repetition_penalty": 1.5}, [RepetitionPenaltyLogitsProcessor(1.5)]),
    "all": (
        {"temperature": 1.3, "top_k": 25, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.2},
        [
            RepetitionPenaltyLogitsProcessor(1.2),
            TemperatureLogitsWarper(1.3),
            TopKLogitsWarper(25),
            TopPLogitsWarper(0.9),
            MinPLogitsWarper(0.02),
        ],
    ),
}


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(60, generator=torch.Generator().manual_seed(11), dtype=torch.float64) * 2


# --- draws ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETUPS)
def test_200_000_draws_follow_the_distribution_of_transformers(name: str, logits: torch.Tensor) -> None:
    ours, theirs = SETUPS[name]
    processed = LogitsProcessorList(theirs)(torch.tensor([CONTEXT]), logits[None].clone())[0]
    theory = processed.softmax(-1).tolist()
    probs = next_token_probs(logits, SamplingSettings(**ours), CONTEXT, len(CONTEXT))
    counts = torch.bincount(draw(probs, N_DRAWS, torch.Generator().manual_seed(7)), minlength=60).tolist()
    found, degrees = chi_square(counts, theory)
    assert degrees >= 3 and found < chi_square_limit(degrees, 3.09), "one honest sample in a thousand exceeds it"


@pytest.mark.parametrize(
    ("fault", "settings"),
    [
        ("crossing_token_dropped", SamplingSettings(top_p=0.8)),
        ("top_k_one_short", SamplingSettings(top_k=4)),
        ("penalty_without_sign", SamplingSettings(repetition_penalty=2.0)),
        ("penalty_per_occurrence", SamplingSettings(repetition_penalty=2.0)),
    ],
)
def test_draws_notice_a_planted_fault(fault: str, settings: SamplingSettings, logits: torch.Tensor) -> None:
    context = [int(logits.argmax())] * 2 + [int((logits + 1).abs().argmin())]
    theory = next_token_probs(logits, settings, context)
    with faults.plant(fault):
        wrong = next_token_probs(logits, settings, context)
    counts = torch.bincount(draw(wrong, N_DRAWS, torch.Generator().manual_seed(0)), minlength=60).tolist()
    found, degrees = chi_square(counts, theory.tolist())
    assert found > 10 * chi_square_limit(degrees)


def test_a_draw_is_the_rule_of_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    probs = torch.tensor([0.0, 0.1, 0.0, 0.7, 0.2])
    points = [0.0, 0.05, 0.1, 0.11, 0.79, 0.81, math.nextafter(1.0, 0.0)]
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor(points, dtype=torch.float64))
    together = draw(probs, len(points)).tolist()
    apart = []
    for point in points:
        monkeypatch.setattr(torch, "rand", lambda *_, value=point, **__: torch.tensor(value, dtype=torch.float64))
        apart.append(sampling.sample(probs))
    assert together == apart and set(together) == {1, 3, 4}


def test_draws_repeat_with_a_seed_and_refuse_what_is_no_distribution() -> None:
    probs = torch.full((50,), 0.02)
    one, same = (draw(probs, 30, torch.Generator().manual_seed(4)).tolist() for _ in range(2))
    assert one == same != draw(probs, 30, torch.Generator().manual_seed(5)).tolist()
    assert draw(probs, 0).tolist() == []
    for bad in ([0.5, -0.1], [0.0, 0.0], [math.nan, 1.0]):
        with pytest.raises(ValueError, match="probs must"):
            draw(torch.tensor(bad), 3)
    with pytest.raises(ValueError, match="n must be"):
        draw(probs, -1)


# --- ties and edges, where the rules of transformers are ours ---------------------------------------------------------


@given(st.lists(st.integers(-6, 6).map(lambda i: i / 2), min_size=2, max_size=10), st.integers(1, 12))
@checked(max_examples=80, deadline=None)
def test_top_k_and_min_p_treat_ties_as_transformers_does(values: list[float], k: int) -> None:
    logits = torch.tensor(values, dtype=torch.float64)
    none = torch.zeros((1, 0), dtype=torch.long)
    assert torch.equal(sampling.top_k_filter(logits, k), TopKLogitsWarper(k)(none, logits[None].clone())[0])
    for min_p in (0.0, 0.3, 1.0):
        theirs = MinPLogitsWarper(min_p)(none, logits[None].clone())[0]
        assert torch.equal(sampling.min_p_filter(logits, min_p), theirs)


@given(st.lists(st.integers(-6, 6).map(lambda i: i / 2), min_size=2, max_size=10), st.floats(0.05, 0.95))
@checked(max_examples=80, deadline=None)
def test_top_p_keeps_as_much_probability_as_transformers_does(values: list[float], p: float) -> None:
    """Which of the tokens tied at the edge stay is open: compare how many stay, and their logits."""
    logits = torch.tensor(values, dtype=torch.float64)
    sums = logits.softmax(-1).sort(descending=True).values.cumsum(-1)
    if bool(((sums - p).abs() < 1e-9).any()):
        return  # a sum exactly at p: rounding decides
    theirs = TopPLogitsWarper(p)(torch.zeros((1, 0), dtype=torch.long), logits[None].clone())[0]
    assert torch.equal(sampling.top_p_filter(logits, p).sort().values, theirs.sort().values)


# --- numbers --------------------------------------------------------------------------------------------------------


def test_token_probability_and_entropy_by_hand() -> None:
    logits = [8.41, 6.23, 5.87, 4.12]
    for temperature in (0.3, 1.0, 2.0):
        weights = [math.exp(value / temperature) for value in logits]
        probs = [weight / math.fsum(weights) for weight in weights]
        assert [token_probability(logits, i, temperature) for i in range(4)] == pytest.approx(probs)
        expected = -math.fsum(p * math.log(p) for p in probs)
        assert sampling.entropy_at(logits, temperature) == pytest.approx(expected)
        assert sampling.entropy(probs) == pytest.approx(expected)
    assert str(sampling.entropy([0.0, 1.0])) == "0.0", "no -0.0, which tables write as -0.000"
    assert sampling.entropy([0.0, 1.0]) == 0 and sampling.entropy([3, 3]) == pytest.approx(math.log(2))


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.01, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("bias", [-100.0, -2.0, 0.0, 10.0, 1000.0])
def test_a_bias_multiplies_the_odds(p: float, bias: float) -> None:
    after = probability_with_bias(p, bias)
    assert 0 <= after <= 1
    if 0 < p < 1 and abs(bias) <= 10:
        assert (after / (1 - after)) / (p / (1 - p)) == pytest.approx(odds_factor(bias))
        logits = torch.tensor([p, 1 - p], dtype=torch.float64).log()
        assert float(sampling.apply_logit_bias(logits, {0: bias}).softmax(-1)[0]) == pytest.approx(after)


def test_distinct_n_by_hand() -> None:
    assert sampling.distinct_n([1, 2, 1, 2, 1], 2) == 2 / 4 and sampling.distinct_n([1, 2, 3], 3) == 1
    assert sampling.distinct_n_of_all([[1, 2, 3], [1, 2, 4], [5]], 2) == 3 / 4
    with pytest.raises(ValueError, match="no run of 4"):
        sampling.distinct_n([1, 2, 3], 4)
    with pytest.raises(ValueError, match="no text"):
        sampling.distinct_n_of_all([[1]], 2)


def test_nucleus_and_rest_are_counted() -> None:
    assert tokens_in_nucleus([0.04, 0.62, 0.18, 0.09], 0.9) == 4 and tokens_in_nucleus([0.62, 0.18], 0.5) == 1
    assert tokens_left_out(128_256, 50) == 128_206 and tokens_left_out(4, 9) == 0


def test_chi_square_by_hand_and_by_its_quantiles() -> None:
    assert chi_square([30, 70], [0.5, 0.5]) == (pytest.approx(16.0), 1)
    assert chi_square([1, 0], [0.0, 1.0]) == (math.inf, 0)
    counts, probs = [10, 10, 3, 2], [0.4, 0.4, 0.12, 0.08]
    assert chi_square(counts, probs) == (pytest.approx(0.0), 2), "the two rare ones are put together"
    # 99.9 % quantiles from tables
    for degrees, quantile in ((1, 10.83), (5, 20.52), (30, 59.70), (100, 149.45)):
        assert chi_square_limit(degrees, 3.09) == pytest.approx(quantile, rel=0.04)
    with pytest.raises(ValueError, match="one count for each"):
        chi_square([1], [0.5, 0.5])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: token_probability([1.0, 2.0], 2), "token must be from 0 to 1"),
        (lambda: token_probability([], 0), "at least one number"),
        (lambda: sampling.entropy([0.5, -0.5]), "non-negative"),
        (lambda: probability_with_bias(1.5, 1), "between 0 and 1"),
        (lambda: odds_factor(math.nan), "finite"),
    ],
)
def test_bad_numbers_raise_a_sentence(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()


def test_draws_of_two_tokens_are_independent() -> None:
    """Neighbouring draws of a fair coin: the four pairs are equally frequent."""
    drawn = draw(torch.tensor([0.5, 0.5]), N_DRAWS, torch.Generator().manual_seed(2)).tolist()
    pairs = [first * 2 + second for first, second in itertools.pairwise(drawn)]
    found, degrees = chi_square([pairs.count(i) for i in range(4)], [0.25] * 4)
    assert found < chi_square_limit(degrees, 3.09)
