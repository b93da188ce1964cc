"""The rule of speculative decoding and its arithmetic, against their definitions in plain Python."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab import speculative as sp

# --- the rule --------------------------------------------------------------------------------------------------------


def probs(rows: int, size: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(-1)


def test_known_cases_of_the_rule() -> None:
    p = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.2, 0.6]])
    q = torch.tensor([[0.2, 0.5, 0.3], [0.7, 0.2, 0.1]])
    assert sp.verify_draft([0, 2], q, p, [0.999, 0.999])[0] == 2  # p >= q: always kept
    n, after = sp.verify_draft([1, 0], q, p, [0.61, 0.0])  # 0.61 >= 0.3 / 0.5
    assert n == 0 and after.tolist() == pytest.approx([1, 0, 0])
    n, after = sp.verify_draft([1, 0], q, p, [0.59, 0.2])  # 0.2 >= 0.1 / 0.7
    assert n == 1 and after.tolist() == pytest.approx([0, 0, 1])
    n, after = sp.verify_draft([1, 0], q, p, [0.59, 0.1])
    assert n == 2 and after.tolist() == pytest.approx([0.2, 0.2, 0.6])
    n, after = sp.verify_draft([], [], p[:1], [])
    assert n == 0 and after.tolist() == pytest.approx([0.5, 0.3, 0.2])


@given(seed=st.integers(0, 999), k=st.integers(0, 5))
@settings(max_examples=50, deadline=None)
def test_the_rule_against_its_definition_in_plain_python(seed: int, k: int) -> None:
    p, q = probs(k + 1, 6, seed), probs(max(k, 1), 6, seed + 1)[:k]
    random = np.random.default_rng(seed)
    tokens, uniforms = random.integers(0, 6, k).tolist(), random.random(k).tolist()
    expected_n, expected = k, p[k].tolist()
    for i in range(k):
        if uniforms[i] >= min(1, float(p[i, tokens[i]] / q[i, tokens[i]])):
            left = [max(0.0, float(a - b)) for a, b in zip(p[i], q[i], strict=True)]
            expected_n, expected = i, [x / sum(left) for x in left]
            break
    for kind in (lambda x: torch.tensor(x, dtype=torch.float64), np.asarray, list):
        n, after = sp.verify_draft(*(kind(x) for x in (tokens, q.tolist(), p.tolist(), uniforms)))
        assert n == expected_n
        assert after.tolist() == pytest.approx(expected)
        assert float(after.sum()) == pytest.approx(1)


def test_the_rule_leaves_its_inputs_alone() -> None:
    given = ([1, 2], probs(2, 4, 1), probs(3, 4, 2), torch.tensor([0.4, 0.9]))
    before = [x.clone() if isinstance(x, torch.Tensor) else list(x) for x in given]
    sp.verify_draft(*given)
    assert all(torch.equal(torch.as_tensor(a), torch.as_tensor(b)) for a, b in zip(given, before, strict=True))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target_probs": probs(2, 4, 1)}, r"target_probs must be \(K \+ 1, V\) = \(3, V\)"),
        ({"draft_probs": probs(3, 4, 1)}, r"draft_probs must be \(K, V\) = \(2, 4\)"),
        ({"draft_probs": probs(2, 5, 1)}, "the vocabulary of the target"),
        ({"uniforms": [0.5]}, "one uniform number for each of the 2"),
        ({"uniforms": [0.5, 1.5]}, "between 0 and 1"),
        ({"draft_tokens": [1, 4]}, "draft token 4 is outside the vocabulary of 4"),
        ({"draft_tokens": [1, -1]}, "at least 0"),
        ({"draft_tokens": 3}, "must be a list"),
        ({"draft_probs": [[0.5, 0.5], [1.0]]}, "rows of one length"),
        ({"draft_probs": torch.tensor([[1.0, 0, 0, 0], [1, 0, 0, 0]])}, "filters included"),
    ],
)
def test_the_rule_refuses(change: dict[str, Any], message: str) -> None:
    right = {
        "draft_tokens": [1, 2],
        "draft_probs": probs(2, 4, 1),
        "target_probs": probs(3, 4, 2),
        "uniforms": [0.1, 0.2],
    }
    with pytest.raises(ValueError, match=message):
        sp.verify_draft(**(right | change))


def test_expected_tokens_is_the_geometric_sum() -> None:
    for a in (0.0, 0.3, 0.7, 0.999, 1.0):
        for k in range(9):
            assert sp.expected_tokens(a, k) == pytest.approx(sum(a**i for i in range(k + 1)))
    for bad in (-0.1, 1.01, math.nan, "0.5"):
        with pytest.raises(ValueError, match="acceptance"):
            sp.expected_tokens(bad, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k must be at least 0"):
        sp.expected_tokens(0.5, -1)


def test_the_speed_up_of_a_published_pair() -> None:
    """Llama 3.2 1B drafting for Llama 3 70B: 2.70 times at acceptance 0.7, K = 5 and the ratio of parameters."""
    assert sp.speedup(0.7, 5, 1235814400 / 70553706496) == pytest.approx(2.7043, abs=1e-3)


@given(k=st.integers(1, 12), cost=st.floats(0, 1.2), verify=st.floats(0.5, 4))
@settings(max_examples=60, deadline=None)
def test_break_even_is_where_the_speed_up_is_one(k: int, cost: float, verify: float) -> None:
    at = sp.break_even(k, cost, verify)
    if at == math.inf:
        assert sp.speedup(1.0, k, cost, verify) < 1
    elif at > 1e-9:
        assert sp.speedup(at, k, cost, verify) == pytest.approx(1, abs=1e-6)
    else:
        assert sp.speedup(0, k, cost, verify) >= 1 - 1e-9


def test_best_k_is_the_best_of_all() -> None:
    for a, cost in ((0.9, 0.1), (0.5, 0.2), (0.99, 0.01)):
        gains = [sp.speedup(a, k, cost) for k in range(17)]
        assert sp.best_k(a, cost) == gains.index(max(gains))
    assert sp.best_k(0.2, 0.5) == 0  # never pays
    assert sp.best_k(0.9, 0.1) > sp.best_k(0.6, 0.1) > 0


def test_acceptance_rate_is_the_overlap() -> None:
    p, q = probs(2, 50, 3)
    kept = sum(float(q[t]) * min(1.0, float(p[t] / q[t])) for t in range(50))
    assert sp.acceptance_rate(p, q) == pytest.approx(kept)
    assert sp.acceptance_rate(p, p) == pytest.approx(1)
    with pytest.raises(ValueError, match="vocab"):
        sp.acceptance_rate(p, q[:3])


@pytest.mark.parametrize("row", [[math.nan, 0.5], [-1.0, 2.0], [math.inf, 0.0], [0.0, 0.0]])
def test_rows_that_are_no_probabilities_are_refused(row: list[float]) -> None:
    with pytest.raises(ValueError, match="probabilities"):
        sp.verify_draft([0], [[0.5, 0.5]], [row, [0.5, 0.5]], [0.3])
    if row != [0.0, 0.0]:
        with pytest.raises(ValueError, match="probabilities"):
            sp.verify_draft([1], [row], [[0.5, 0.5], [0.5, 0.5]], [0.3])


@pytest.mark.parametrize(
    ("counts", "chances"), [([10, 10], [math.nan, 0.5]), ([10, 1], [0, 0]), ([10, -5], [0.5, 0.5])]
)
def test_a_test_that_must_turn_red_refuses_what_is_no_count(counts: list, chances: list) -> None:
    with pytest.raises(ValueError, match="finite"):
        sp.chi_square(counts, chances)
