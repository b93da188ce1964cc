"""The widgets of notebook 07: principal axes against numpy, what the points are, and faults in a search by vectors."""

from typing import Any

import numpy as np
import pytest
import torch

import kvlab
from kvlab import faults, widgets
from kvlab.embeddings import word_states
from kvlab.model import Llama
from kvlab.widgets.break_vectors import ALONE, CONTEXT, LENGTH, SHELF
from kvlab.widgets.layer_projection import OWN, SENSES

TEXTS = [text for sense in SENSES.values() for text in sense]


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu")


def test_principal_axes_are_the_leading_eigenvectors_of_the_covariance() -> None:
    rng = np.random.default_rng(7)
    points = rng.normal(size=(30, 5)) * [5, 1, 3, 0.5, 0.1] + 4
    mean, axes, share = widgets.principal_axes(torch.tensor(points))
    values, vectors = np.linalg.eigh(np.cov(points.T))  # rising
    assert np.allclose(mean, points.mean(0))
    assert np.allclose(np.abs(axes.numpy() @ vectors[:, [-1, -2]]), np.eye(2), atol=1e-9)
    assert np.allclose(share, values[[-1, -2]] / values.sum())
    assert ((torch.tensor(points[0]) - mean) @ axes.T).min() >= 0, "the sign is that of the first point"


def test_points_without_spread_have_no_share_and_bad_ones_are_refused() -> None:
    assert widgets.principal_axes(torch.ones(4, 3))[2].tolist() == [0, 0]
    for bad in (torch.ones(4), torch.ones(1, 3), torch.ones(3, 1)):
        with pytest.raises(ValueError, match="at least two"):
            widgets.principal_axes(bad)


@pytest.mark.parametrize("layer", [1, 8])
def test_a_view_agrees_with_a_plain_count(primer: Llama, layer: int) -> None:
    view = widgets.layer_view(primer, layer)
    states = word_states(primer, "bank", TEXTS).states[layer].double().numpy()
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    sense = [0] * 6 + [1] * 6
    same, across, right = [], [], 0
    for i in range(12):
        others = {j: float(states[i] @ states[j]) for j in range(12) if j != i}
        right += sense[max(others, key=lambda j: others[j])] == sense[i]
        for j, cosine in others.items():
            (same if sense[i] == sense[j] else across).append(cosine)
    assert view["same"] == pytest.approx(np.mean(same), abs=1e-5)
    assert view["across"] == pytest.approx(np.mean(across), abs=1e-5)
    assert view["neighbours"] == right
    assert {name: len(x) for name, (x, _) in view["points"].items()} == {"river": 6, "money": 6}


def test_before_the_first_block_all_points_are_one(primer: Llama) -> None:
    view = widgets.layer_view(primer, 0, OWN)
    assert max(abs(value) for x, y in view["points"].values() for value in (*x, *y)) < 1e-6
    assert view["share"] == [0, 0] and view["nearest"] is None


def test_ones_own_sentence_is_drawn_and_turns_no_axis(primer: Llama) -> None:
    view = widgets.layer_view(primer, 8, TEXTS[2])
    assert view["nearest"] == TEXTS[2]
    assert [view["points"]["yours"][axis][0] for axis in (0, 1)] == pytest.approx(
        [view["points"]["river"][axis][2] for axis in (0, 1)], abs=1e-2
    )
    alone = widgets.layer_view(primer, 8)
    assert np.allclose(view["points"]["money"], alone["points"]["money"], atol=1e-2)


def test_bad_settings_say_what_is_wrong(primer: Llama) -> None:
    for layer in (-1, 9):
        with pytest.raises(ValueError, match="layer"):
            widgets.layer_view(primer, layer)
    with pytest.raises(ValueError, match="does not hold the word"):
        widgets.layer_view(primer, 1, "Tom sat on a chair.")
    with pytest.raises(ValueError, match="not the same token"):
        widgets.layer_view(primer, 1, "bank of the river")


def test_projection_widget_shows_what_the_plain_function_returns(primer: Llama) -> None:
    shown = widgets.layer_projection(primer, layer=3)
    assert shown.values == widgets.layer_view(primer, 3, OWN)
    drawn = {line.get_label(): line.get_xydata() for line in shown.figure.axes[0].lines}
    for sense, places in shown.values["points"].items():
        assert np.allclose(drawn[sense], np.array(places).T)
    assert all(line.get_linestyle() == "None" for line in shown.figure.axes[0].lines)
    shown.controls["layer"].value = 0
    assert shown.values["layer"] == 0 and "all are equal" in shown.table
    shown.controls["own"].value = "no such word"
    assert "does not hold the word" in shown.message and shown.values["layer"] == 0


@pytest.mark.parametrize("layer", [-1, 99, 2.5, "3", True])
def test_a_layer_to_start_with_must_lie_on_the_slider(primer: Llama, layer: Any) -> None:
    with pytest.raises(ValueError, match="layer must be"):
        widgets.layer_projection(primer, layer=layer)


@pytest.mark.parametrize(
    ("make", "key"), [(widgets.break_it, "tokens_right"), (widgets.break_vectors, "ranking_right")]
)
def test_who_changes_the_values_changes_no_later_figure(primer: Llama, make: Any, key: str) -> None:
    shown = make(primer)
    right = list(shown.values[key])
    shown.values[key].reverse()
    shown.controls["fault"].value = shown.controls["fault"].options[1]
    assert shown.values[key] == right


EXPECTED = {"none": None, "padding_pooled": ALONE, "dot_for_cosine": LENGTH, "rows_for_hidden_states": CONTEXT}


@pytest.mark.parametrize("fault", widgets.VECTOR_FAULTS)
def test_each_fault_is_noticed_by_its_own_check(primer: Llama, fault: str) -> None:
    seen = widgets.run_vector_fault(primer, fault)
    assert [name for name, good in seen["checks"].items() if not good] == [EXPECTED[fault]] * (fault != "none")
    assert sorted(text for text, _ in seen["ranking"]) == sorted(SHELF)
    scores = [score for _, score in seen["ranking"]]
    assert scores == sorted(scores, reverse=True)


def test_a_fault_ends_with_the_call(primer: Llama) -> None:
    right = widgets.run_vector_fault(primer, "none")["ranking"]
    assert widgets.run_vector_fault(primer, "padding_pooled")["ranking"] != right
    assert widgets.run_vector_fault(primer, "none")["ranking"] == right
    assert set(widgets.VECTOR_FAULTS) - {"none"} <= set(faults.FAULTS)


def test_fault_widget(primer: Llama) -> None:
    shown = widgets.break_vectors(primer)
    assert "✗" not in shown.table
    shown.controls["fault"].value = "dot_for_cosine"
    assert shown.table.count("✗ FAILS") == 1 and "that of the right search" in shown.table
    heights = [bar.get_height() for bar in shown.figure.axes[0].patches]
    assert heights == pytest.approx([score for _, score in shown.values["ranking"]])
    shown.controls["query"].value = "  "
    assert "the query is empty" in shown.message
    with pytest.raises(ValueError, match="choose one of none, padding_pooled"):
        widgets.run_vector_fault(primer, "stale_cache")
