"""The widgets of notebook 03: states read from the block manager's books, the waste of pages, and faults in the books."""

import numpy as np
import pytest
import torch

import kvlab
from kvlab import faults, generate, widgets
from kvlab.engine import BlockManager, OutOfBlocks
from kvlab.model import Llama
from kvlab.widgets.break_pages import BOOKS, CHILD, PARENT


@pytest.fixture(scope="module")
def primer() -> Llama:
    return kvlab.load("primer", "cpu", torch.float64)


def test_states_tell_the_story_of_sharing_copying_keeping_and_evicting() -> None:
    states = widgets.pool_states(4)
    forked, copied, apart = states[2:5]
    assert forked["tables"]["A"] == forked["tables"]["B"] == forked["shared"]
    ((source, target),) = copied["copies"]
    assert source == copied["tables"]["A"][-1] and target == copied["tables"]["B"][-1]
    assert copied["shared"] == copied["tables"]["A"][:2] and apart["copies"] == []
    ended, alone, found, last = states[5:9]
    assert "A" not in ended["tables"] and ended["kept"] and alone["tables"] == {}
    assert found["found"] == 8 and found["tables"]["C"][:2] == forked["tables"]["A"][:2]
    assert found["evicted"] == [], "found again is not taken away"
    assert last["evicted"] == found["kept"] and last["empty"] == [] and set(last["evicted"]) <= set(last["tables"]["D"])


@pytest.mark.parametrize("block_size", [4, 5, 8])
def test_every_block_is_in_a_row_and_held_tokens_fit(block_size: int) -> None:
    for state in widgets.pool_states(block_size):
        matrix = widgets.pool_matrix(state)
        assert matrix.any(axis=0).all()
        assert [b for b in range(10) if matrix[:4, b].sum() > 1] == state["shared"]
        assert not (matrix[:4].any(axis=0) & matrix[4:].any(axis=0)).any() and not (matrix[4] & matrix[5]).any()
        for name, table in state["tables"].items():
            assert len(table) == -(-state["held"][name] // block_size)


def test_a_pool_too_small_is_refused() -> None:
    with pytest.raises(OutOfBlocks):
        widgets.pool_states(4, n_blocks=5)


def test_pool_widget_shows_what_the_plain_function_returns() -> None:
    shown = widgets.paged_pool(step=3, block_size=4)
    assert shown.values == widgets.pool_states(4)[3] and "2 -> 3" in shown.table
    (picture,) = shown.figure.axes[0].get_images()
    assert np.array_equal(picture.get_array(), widgets.pool_matrix(shown.values))
    shown.controls["step"].value = 5
    shown.controls["block_size"].value = 8
    assert shown.values == widgets.pool_states(8)[5]


def test_empty_share_by_hand_and_against_the_block_manager() -> None:
    assert widgets.empty_share([612], 16) == pytest.approx(12 / 624)
    assert widgets.empty_share([1, 2, 3], 1) == 0
    lengths = widgets.draw_lengths(100, 500, n=20, seed=3)
    manager = BlockManager(1000, 16)
    for name, length in enumerate(lengths):
        manager.start(name, [])
        manager.reserve(name, length)
    assert widgets.empty_share(lengths, 16) == 1 - sum(lengths) / (16 * manager.n_used)
    for bad in (([], 4), ([0], 4), ([3], 0)):
        with pytest.raises(ValueError):
            widgets.empty_share(*bad)


def test_lengths_have_the_mean_and_repeat() -> None:
    lengths = widgets.draw_lengths(300, 10**6, n=4000)
    assert abs(sum(lengths) / 4000 - 300) < 15 and lengths == widgets.draw_lengths(300, 10**6, n=4000)
    assert max(widgets.draw_lengths(300, 400)) == 400


def test_waste_widget_shows_what_the_plain_function_returns() -> None:
    shown = widgets.page_waste(16, 480)
    assert shown.values == widgets.waste_by_block(480, 16)
    curve, mark = shown.figure.axes[0].get_lines()
    assert list(curve.get_ydata()) == [100 * share for share in shown.values["shares"].values()]
    assert list(mark.get_xdata()) == [16]
    assert f"mean length as drawn, cut at 2,048   | {shown.values['mean']:.0f} tokens" in shown.table
    assert ("2,048", 2048) in shown.controls["block_size"].options
    shown.controls["block_size"].value = 256
    assert shown.values == widgets.waste_by_block(480, 256)


def test_without_a_fault_both_texts_are_those_of_a_run_alone(primer: Llama) -> None:
    found = widgets.run_pages_fault(primer, "none")
    assert all(found["checks"].values())
    alone = generate.generate_naive(primer, "Once there was a shy girl named Vera. Vera had a", 12)
    assert found["texts"]["parent"] == alone.text
    assert max(map(max, found["differences"].values())) < 1e-9


@pytest.mark.parametrize(
    ("fault", "red"),
    [("shared_block_written", [PARENT]), ("block_not_copied", [PARENT]), ("shared_block_freed", [PARENT, BOOKS])],
)
def test_each_page_fault_turns_its_checks_red_and_leaves_nothing_planted(
    primer: Llama, fault: str, red: list[str]
) -> None:
    found = widgets.run_pages_fault(primer, fault)
    assert [name for name, good in found["checks"].items() if not good] == red and found["checks"][CHILD]
    assert all(widgets.run_pages_fault(primer, "none")["checks"].values())


def test_a_written_shared_block_leaks_words_and_a_freed_one_leaves_the_text(primer: Llama) -> None:
    texts = {fault: widgets.run_pages_fault(primer, fault)["texts"] for fault in widgets.PAGE_FAULTS}
    assert "blue" in texts["shared_block_written"]["parent"] and "blue" not in texts["none"]["parent"]
    assert texts["shared_block_freed"] == texts["none"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("stale_cache",), "no page fault"), (("none", " "), "needs a word"), (("none", "mom", 1), "at least 2")],
)
def test_run_pages_fault_refuses(primer: Llama, arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        widgets.run_pages_fault(primer, *arguments)


def test_break_pages_shows_what_the_plain_function_returns(primer: Llama) -> None:
    shown = widgets.break_pages(primer, fault="shared_block_written")
    assert shown.values == widgets.run_pages_fault(primer, "shared_block_written") and "FAILS" in shown.table
    drawn = {line.get_label(): list(line.get_ydata()) for line in shown.figure.axes[0].get_lines()}
    assert drawn == shown.values["differences"]
    shown.controls["fault"].value = "none"
    assert shown.values == widgets.run_pages_fault(primer, "none")
    shown.controls["prompt"].value = " "
    assert "needs a word" in shown.message
    assert set(widgets.PAGE_FAULTS) - {"none"} <= set(faults.FAULTS)


def test_window_view_by_hand() -> None:
    view = widgets.window_view(n_tokens=6, n_new=2, window=3, n_layers=4)
    assert view["mask"] == [[False, False, True, True, True, False], [False, False, False, True, True, True]]
    assert view["slots"] == [3, 4, 5] and view["forgotten"] == 3 and view["reach"] == 8 and view["first_query"] == 4
    for bad in ((3, 4, 2, 1), (3, 3, 0, 1)):
        with pytest.raises(ValueError):
            widgets.window_view(*bad)


def test_window_widget_shows_what_the_plain_function_returns() -> None:
    shown = widgets.window_mask(12, 12, 4)
    (picture,) = shown.figure.axes[0].get_images()
    assert np.array_equal(picture.get_array(), shown.values["mask"])
    shown.controls["window"].value = 6
    shown.controls["n_new"].value = 1
    assert shown.values == widgets.window_view(12, 1, 6, 8)
    shown.controls["n_new"].value = 13  # more than there are tokens: the other slider comes along
    assert not shown.message and shown.values == widgets.window_view(13, 13, 6, 8)
    shown.controls["n_tokens"].value = 5
    assert not shown.message and shown.values == widgets.window_view(5, 5, 6, 8)
