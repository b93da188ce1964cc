"""`kvgrade doctor`: a jail that works, and one in which answers with magics would lose their marks."""

import time

import pytest

from helpers import require
from kvgrade.__main__ import main
from kvgrade.cli import doctor
from kvgrade.worker import try_one


def test_a_machine_that_can_isolate_answers(capsys: pytest.CaptureFixture[str]) -> None:
    require("bubblewrap")
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out == "jail: ok, answers are isolated on this machine\n"


def test_a_package_that_the_jail_does_not_see_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require("bubblewrap")
    monkeypatch.setattr(doctor, "MAGICS", "import not_below_the_prefix")
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "jail: ok" in said and "%timeit would lose their marks" in said
    assert "ModuleNotFoundError: No module named 'not_below_the_prefix'" in said and "install them there" in said


def test_one_answer_in_a_jail() -> None:
    require("bubblewrap")
    assert try_one(time.monotonic() + 60, "%timeit 1") == ""
    assert try_one(time.monotonic() + 60, "int('one')").startswith("ValueError: ")
