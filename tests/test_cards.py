"""All 24 cards of the guide have a demonstration, claims, a graded exercise, questions and a fault that tests notice."""

import pytest

from cards import Card, cards, main
from kvlab.faults import FAULTS
from mutate import WATCHERS


@pytest.mark.parametrize("card", cards(), ids=lambda card: f"card {card.number}")
def test_the_card_is_complete(card: Card) -> None:
    assert card.asserts >= 1, "no demonstration asserts anything"
    assert card.claims >= 1 and card.shows_claims, "the card shows no claims"
    assert card.exercises, "the card has no graded exercise"
    assert card.predictions >= 1 and card.quiz == 5
    assert card.fault in FAULTS and WATCHERS[card.fault]


def test_there_are_24_and_each_has_a_fault_of_its_own(capsys: pytest.CaptureFixture) -> None:
    found = cards()
    assert [card.number for card in found] == list(range(1, 25))
    assert len({card.fault for card in found}) == 24
    assert main([]) == 0
    assert capsys.readouterr().out.count("\n") == 25
