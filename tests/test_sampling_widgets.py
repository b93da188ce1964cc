"""The widgets of notebook 05: the lab's data against the pipeline, what its controls do, beam trees, planted faults."""

import html
import math
import re

import pytest
import torch

import kvlab
from helpers import words_outside
from kvlab import generate, sampling, widgets
from kvlab.model import Llama
from kvlab.sampling import SamplingSettings
from kvlab.widgets.break_sampling import LOWER, ONCE, TOP_K, TOP_P
from kvlab.widgets.sampling_lab import library_table
from kvlab.widgets.sampling_view import alt_text, stage_table, token_table

FULL = SamplingSettings(temperature=1.4, top_k=30, top_p=0.9, min_p=0.02, repetition_penalty=1.3, seed=3)


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu", torch.float64)


@pytest.fixture
def logits() -> torch.Tensor:
    return torch.randn(60, generator=torch.Generator().manual_seed(5), dtype=torch.float64) * 2


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", list(sampling.ORDERS))
def test_view_is_the_pipeline(logits: torch.Tensor, order: str) -> None:
    settings = SamplingSettings(temperature=1.4, top_k=30, top_p=0.9, min_p=0.02, repetition_penalty=1.3, order=order)
    context = [4, 4, 9]
    view = widgets.lab_view(logits, settings, context, n_shown=60)
    theory = sampling.next_token_probs(logits, settings, context, 3)
    weights = [math.exp(float(value)) for value in logits]
    for token, before, after, stage in zip(view["tokens"], view["before"], view["after"], view["cut_by"], strict=True):
        assert before == pytest.approx(weights[token] / math.fsum(weights))
        assert after == float(theory[token]) and (after == 0) == bool(stage)
    assert sorted(view["tokens"]) == list(range(60)) and view["before"] == sorted(view["before"], reverse=True)
    assert view["left"] == sum(after > 0 for after in view["after"])
    assert [row["name"] for row in view["stages"]] == ["logits", "repetition_penalty", *sampling.ORDERS[order]]


def test_each_stage_is_charged_with_what_it_cut(logits: torch.Tensor) -> None:
    view = widgets.lab_view(logits, FULL, [4, 9], n_shown=60)
    for row in view["stages"]:
        named = sum(stage == row["name"] for stage in view["cut_by"])
        assert row["cut"] == named
    left = 60
    for row in view["stages"]:
        left -= row["cut"]
        assert row["left"] == left
    only_k = widgets.lab_view(logits, SamplingSettings(top_k=5))
    assert only_k["stages"][1]["mass"] == pytest.approx(1 - float(logits.softmax(-1).topk(5).values.sum()))


def test_draws_lie_over_the_theory(logits: torch.Tensor) -> None:
    view = widgets.lab_view(logits, FULL, n_draws=20_000, n_shown=60)
    assert sum(view["drawn"]) == 20_000
    found, degrees = sampling.measures.chi_square(view["drawn"], view["after"])
    assert found < sampling.measures.chi_square_limit(degrees)
    assert view["drawn"] == widgets.lab_view(logits, FULL, n_draws=20_000, n_shown=60)["drawn"], "the seed repeats"


def test_entropies(logits: torch.Tensor) -> None:
    view = widgets.lab_view(logits, SamplingSettings(temperature=0))
    assert view["entropy_after"] == 0 and view["left"] == 1 and view["entropy_before"] > 1


def test_one_token_left_is_told_as_one_without_entropy(logits: torch.Tensor) -> None:
    view = widgets.lab_view(logits, SamplingSettings(top_k=1))
    assert alt_text(view).endswith("after, 1 token left.") and "-0.000" not in stage_table(view).to_text()
    assert alt_text(widgets.lab_view(logits, SamplingSettings(top_k=2))).endswith("after, 2 tokens left.")


def test_svg_shows_each_number_and_escapes_labels(logits: torch.Tensor) -> None:
    labels = [f"<{token}>" for token in range(60)]
    view = widgets.lab_view(logits, FULL, labels=labels, n_draws=100)
    page = widgets.bars_svg(view)
    assert page.startswith("<svg") and 'role="img"' in page and html.escape(alt_text(view)) in page
    for label, before, after, stage in zip(view["labels"], view["before"], view["after"], view["cut_by"], strict=True):
        assert f"&lt;{label[1:-1]}&gt;" in page and label not in page
        assert f">{before:.3f}<" in page
        assert (f"cut by {stage}" if stage else f">{after:.3f} · drawn") in page
    widths = [float(width) for width in re.findall(r'width="([\d.]+)" height="10"', page)]
    scale = max(widths)
    longest = max(view["before"] + view["after"])
    drawn = [share for pair in zip(view["before"], view["after"], strict=True) for share in pair]
    assert widths == pytest.approx([scale * share / longest for share in drawn], abs=0.1)


def test_the_mark_of_the_draws_stands_below_the_number_of_the_bar_before(logits: torch.Tensor) -> None:
    page = widgets.bars_svg(widgets.lab_view(logits, SamplingSettings(seed=0), n_draws=100, n_shown=3))
    numbers = [float(y) for y in re.findall(r'y="(\d+)" text-anchor="start" font-size="10" fill="#000000">0', page)]
    marks = [float(y) for y in re.findall(r'y="(\d+)" width="3"', page)]
    assert len(marks) == 3 and len(numbers) == 6
    assert all(mark > baseline for mark, baseline in zip(marks, numbers[::2], strict=True))


def test_a_hidden_picture_gives_nothing_away(logits: torch.Tensor) -> None:
    view = widgets.lab_view(logits, FULL, n_draws=100)
    page = widgets.bars_svg(view, hidden=True)
    assert "cut by" not in page and "drawn" not in page and f"{view['left']} tokens" not in page
    assert page.count('height="10"') == len(view["tokens"])


def test_tables_hold_the_same_numbers(logits: torch.Tensor) -> None:
    view = widgets.lab_view(logits, FULL, [3])
    assert len(token_table(view).rows) == 12 and len(stage_table(view).rows) == len(view["stages"])
    assert [row[0] for row in library_table().rows] == list(sampling.ORDERS)


# --- the lab --------------------------------------------------------------------------------------------------------


def test_lab_shows_what_the_plain_function_returns(primer: Llama, capsys: pytest.CaptureFixture[str]) -> None:
    lab = widgets.sampling_lab(primer, top_k=5, temperature=0.7)
    ids, logits = widgets.next_logits(primer, "mom washed the")
    settings = SamplingSettings(temperature=0.7, top_k=5)
    assert lab.values["after"] == widgets.lab_view(logits, settings, ids)["after"]
    assert lab.table in capsys.readouterr().out
    lab.controls["order"].value = "llama.cpp"
    lab.controls["top_p"].value = 0.5
    lab.controls["min_p"].value = 0.1
    lab.controls["penalty"].value = 1.5
    settings = SamplingSettings(0.7, 5, 0.5, 0.1, 1.5, order="llama.cpp")
    assert lab.values["after"] == widgets.lab_view(logits, settings, ids)["after"]
    (figure,) = [child.value for child in lab.panel.children if "<svg" in str(getattr(child, "value", ""))]
    assert lab.svg in figure
    lab.controls["top_k"].value = 0
    assert "top_k" not in [row["name"] for row in lab.values["stages"]]


def test_lab_takes_any_text_and_answers_a_bad_one_with_a_sentence(primer: Llama) -> None:
    lab = widgets.sampling_lab(primer)
    lab.controls["prompt"].value = "dad fixed the"
    good = lab.values
    _, logits = widgets.next_logits(primer, "dad fixed the")
    assert good["before"][0] == pytest.approx(float(logits.softmax(-1).max())) and lab.message == ""
    for text, word in (("  ", "empty"), ("a b " * 9000, "window")):
        lab.controls["prompt"].value = text
        assert word in lab.message and lab.values is good
    lab.controls["temperature"].value = 2.0
    lab.controls["prompt"].value = "dad fixed the"
    assert lab.message == "" and lab.values["stages"][1]["name"] == "temperature"


def test_lab_hides_until_the_prediction_is_revealed(primer: Llama) -> None:
    lab = widgets.sampling_lab(primer)
    lab.reveal()
    assert "Nothing is hidden" in lab.message
    lab.controls["predict"].value = True
    lab.controls["top_k"].value = 4
    assert lab.hidden and "cut by" not in lab.svg and "Reveal" in lab.message
    lab.controls["guess"].value = 3
    assert lab.hidden, "a guess reveals nothing"
    lab.reveal()
    assert not lab.hidden and lab.message == "No: you said 3, and 4 are left." and "cut by top_k" in lab.svg
    lab.controls["top_p"].value = 0.01
    lab.controls["guess"].value = 1
    lab.buttons["reveal"].click()
    assert lab.message.startswith("Yes")


def test_lab_writes_continuations_with_its_settings(primer: Llama) -> None:
    lab = widgets.sampling_lab(primer, temperature=0)
    lab.buttons["write"].click()
    greedy = generate.generate_naive(primer, "mom washed the", 24).text
    assert lab.texts == [greedy] * 3
    lab.controls["temperature"].value = 1.5
    lab.write()
    assert len(set(lab.texts)) > 1


def test_lab_without_a_front_end_keeps_bars_and_tables(primer: Llama) -> None:
    lab = widgets.sampling_lab(primer, top_p=0.8)
    assert "<svg" in lab.html and "cut by top_p" in lab.html and "mlx-lm" in lab.html and "<script" not in lab.html
    assert lab.question in lab.text and "What each stage did" in lab.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"draws": 7}, "draws must be one of"),
        ({"top_k": -1}, "top_k"),
        ({"prompt": " "}, "the prompt is empty"),
        ({"temperature": -1.0}, "temperature"),
        ({"order": "alphabetical"}, "unknown order"),
        ({"order": sampling.ORDERS["transformers"]}, "order must be one of"),
        ({"prompt": ""}, "the prompt is empty"),
        ({"prompt": None}, "the prompt must be a text"),
        ({"temperature": 5.0}, "temperature must be from 0 to 3"),
        ({"top_k": 100}, "top_k must be from 0 to 60"),
        ({"top_p": 0.001}, "top_p"),
        ({"penalty": 10}, "penalty"),
        ({"model": None}, "no tokenizer"),
    ],
)
def test_lab_refuses_bad_settings(primer: Llama, change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.sampling_lab(**{"model": primer} | change)


# --- the beam tree --------------------------------------------------------------------------------------------------


def test_tree_leads_from_the_prompt_to_each_beam(primer: Llama) -> None:
    view = widgets.tree_view(primer, "mom washed the", 4, 6)
    for rank, (text, score) in enumerate(view["beams"]):
        place, back = rank, []
        for step in reversed(view["steps"]):
            assert step[place]["alive"]
            back.append(step[place]["text"])
            place = step[place]["parent"]
        assert "".join(reversed(back)) == text and view["steps"][-1][rank]["score"] == score
    assert any(not kept["alive"] for step in view["steps"] for kept in step), "somebody falls out"


def test_tree_widget_draws_each_kept_beam(primer: Llama) -> None:
    shown = widgets.beam_tree(primer, n_beams=3, n_new=4)
    assert shown.values == widgets.tree_view(primer, "mom washed the", 3, 4)
    boxes = [text.get_text() for text in shown.figure.axes[0].texts]
    assert len(boxes) == 1 + sum(map(len, shown.values["steps"]))
    shown.controls["n_beams"].value = 1
    assert [len(step) for step in shown.values["steps"]] == [1] * 4
    shown.controls["prompt"].value = " "
    assert "empty" in shown.message


@pytest.mark.parametrize("n_beams", [1, 2])
def test_the_smallest_tree_has_room_for_its_words(primer: Llama, n_beams: int) -> None:
    figure = widgets.beam_tree(primer, n_beams=n_beams, n_new=1).figure
    assert words_outside(figure) == []


# --- planted faults -------------------------------------------------------------------------------------------------

RED = {
    "none": [],
    "crossing_token_dropped": [TOP_P],
    "top_k_one_short": [TOP_K],
    "penalty_without_sign": [LOWER],
    "penalty_per_occurrence": [ONCE],
}


@pytest.mark.parametrize("fault", widgets.SAMPLING_FAULTS)
def test_each_fault_turns_its_own_check_red_and_leaves_nothing_planted(primer: Llama, fault: str) -> None:
    found = widgets.run_sampling_fault(primer, fault)
    assert [name for name, good in found["checks"].items() if not good] == RED[fault]
    assert all(0 <= distance <= 1 for distance in found["distances"])
    assert len(found["text_wrong"]) > 40, "the text stays text"
    assert all(widgets.run_sampling_fault(primer, "none", n_new=4)["checks"].values())


def test_without_a_fault_nothing_differs(primer: Llama) -> None:
    found = widgets.run_sampling_fault(primer, "none")
    assert found["text_wrong"] == found["text_right"] and found["max_distance"] == 0


def test_break_widget_shows_what_the_plain_function_returns(primer: Llama) -> None:
    shown = widgets.break_sampling(primer, n_new=12, fault="crossing_token_dropped")
    assert shown.values == widgets.run_sampling_fault(primer, "crossing_token_dropped", n_new=12)
    assert "✗ FAILS" in shown.table
    heights = [bar.get_height() for bar in shown.figure.axes[0].patches]
    assert heights == shown.values["distances"]
    shown.controls["fault"].value = "none"
    assert shown.values["max_distance"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stale_cache",), "no sampling fault"),
        (("none", " "), "the prompt is empty"),
        (("none", "mom", 0), "at least 1"),
    ],
)
def test_run_sampling_fault_refuses(primer: Llama, arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.run_sampling_fault(primer, *arguments)
