"""Each planted fault is noticed by the test that is named beside it, in the words that are expected."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import test_seats
from browser_lab import Lab
from faults import FAULTS, NONE, Fault, plant
from notebook_page import seated
from seats import SEATS, Seat
from test_seats import Taken

from helpers import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(600)]
SHORT = ("dead_slider", "external_request")
FIRST = SEATS[0]


@contextmanager
def seat_with(fault: Fault, lab: Lab, browser: "Browser") -> Iterator[Taken]:
    """A short copy of notebook 01 with this fault, run; what fails there fails within seconds."""
    name = f"planted_{fault.name}"
    plant(fault, ROOT / "notebooks" / FIRST.name, lab.work / f"{name}.ipynb")
    with seated(browser, lab, f"{name}.ipynb") as (notebook, watch):
        notebook.open().run_all()
        notebook.patience(12 if fault is not NONE else 120)
        seat = Seat(name, FIRST.widgets[:1], FIRST.exercise, FIRST.wrong, FIRST.rule, FIRST.notebook)
        yield Taken(seat, notebook, watch)


def run(name: str, taken: Taken) -> None:
    test = getattr(test_seats, name)
    test(taken, "light") if name == "test_outputs_are_accessible_and_nothing_is_clipped" else test(taken)


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, marks=() if f.name in SHORT else pytest.mark.full, id=f.name) for f in FAULTS],
)
def test_the_named_test_notices(fault: Fault, lab: Lab, browser: "Browser") -> None:
    from playwright.sync_api import Error

    with seat_with(fault, lab, browser) as taken, pytest.raises((AssertionError, Error, ValueError)) as caught:
        run(fault.test, taken)
    assert fault.words in str(caught.value)


@pytest.mark.full
def test_without_a_fault_the_same_tests_pass(lab: Lab, browser: "Browser") -> None:
    with seat_with(NONE, lab, browser) as taken:
        for name in dict.fromkeys(fault.test for fault in FAULTS):
            run(name, taken)
