"""kvlab.check.compare: types don't matter, shapes and values do."""

import numpy as np
import pytest
import torch

from kvlab.check.compare import difference

EXACT_PAIRS = [
    (2.0, 2), (True, 1), (np.int64(3), 3), (torch.tensor(3), 3), (np.array([1, 2]), [1, 2]), ((1, 2), [1, 2]),
    (torch.tensor([[1, 2]]), np.array([[1.0, 2.0]])), ([], []), ("a", "a"), (None, None), (b"x", b"x"),
    ({"a": 1.0, "b": [1, 2]}, {"b": (1, 2), "a": 1}), ([([1, 2], 0.5), ([1], 1.0)], [([1, 2], 0.5), ([1], 1.0)]),
    (float("nan"), float("nan")), (2**70, 2**70), (torch.tensor([1.5], dtype=torch.bfloat16), [1.5]),
    (torch.tensor([True, False], requires_grad=False), [True, False]), (["a", "b"], ["a", "b"]),
    (torch.ones(2, requires_grad=True), [1, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("actual", "expected"), EXACT_PAIRS)
def test_equal_accepts(actual: object, expected: object) -> None:
    assert difference(actual, expected) is None
    assert difference(actual, expected, rtol=1e-3, atol=1e-4) is None


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (2.5, 2), (2.0001, 2), (False, 1), ("2", 2), (2, "2"), (None, 0), (0, None), ([1, 2, 3], [1, 2]), ([1], 1),
        ([[1, 2]], [1, 2]), ({"a": 1}, {"a": 1, "b": 2}), ({"a": 1, "b": 3}, {"a": 1, "b": 2}), ([[1], [1, 2]], [1, 2]),
        (float("inf"), float("nan")), (2**70 + 1, 2**70), (object(), 1), ([1, "a"], [1, "b"]), ([], [1]),
        ([([1, 2], 0.5)], [([1, 3], 0.5)]), (np.zeros((0, 2)), []), (["1"], [1]),
    ],
)  # fmt: skip
def test_equal_refuses(actual: object, expected: object) -> None:
    found = difference(actual, expected)
    assert found is not None and found.expected and found.actual


def test_shape_is_compared_first_and_both_are_named() -> None:
    found = difference(np.zeros((3, 2)), np.ones((2, 3)), rtol=1e-3)
    assert found is not None
    assert "(2, 3)" in found.expected and "(3, 2)" in found.actual and found.where == ""


def test_first_differing_index_is_named() -> None:
    want = np.zeros((4, 5))
    have = want.copy()
    have[2, 3], have[3, 0] = 7, 8
    found = difference(torch.from_numpy(have), want, rtol=1e-3, atol=1e-4)
    assert found is not None
    assert found.where.startswith("[2, 3], the first of 2 values out of 20") and "7" in found.actual
    nested = difference({"tpot": [1, 2, 4]}, {"tpot": [1, 2, 3]})
    assert nested is not None and nested.where == "['tpot'][2]"


@pytest.mark.parametrize(
    ("actual", "expected", "same"),
    [
        (1.0009, 1.0, True),
        (1.0012, 1.0, False),
        (0.00009, 0.0, True),
        (0.00011, 0.0, False),
        (-np.inf, -np.inf, True),
        (np.inf, -np.inf, False),
        (5.0, np.inf, False),
        (np.inf, 5.0, False),
        (np.nan, 5.0, False),
        (torch.tensor([1.0, -torch.inf]), np.array([1.0, -np.inf], dtype=np.float32), True),
        ([1, 2], torch.tensor([1, 2]), True),
        (1, True, True),
    ],
)
def test_close_tolerance(actual: object, expected: object, same: bool) -> None:
    assert (difference(actual, expected, rtol=1e-3, atol=1e-4) is None) is same
