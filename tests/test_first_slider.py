"""benchmarks/first_slider.py up to the browser: what it starts, what it reads, and what it leaves running. No time is judged."""

import importlib
import os
import re
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from helpers import ROOT, require

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ends a group of processes, as POSIX has them")
LIMIT = 60.0


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    require("make")
    for folder in ("tests/browser", "benchmarks"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module("first_slider")


def clone(folder: Path, *commands: str) -> Path:
    """A folder with a Makefile whose `lab` does this."""
    path = folder / "clone"
    path.mkdir()
    (path / "Makefile").write_text("lab:\n" + "".join(f"\t@{command}\n" for command in commands))
    return path


def test_make_lab_gives_the_address_and_is_ended(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PYTHONPATH", "VENV"):
        monkeypatch.setenv(name, "/somewhere")
    path = clone(
        tmp_path,
        'mkdir .venv; touch .venv/.installed-1-base; echo "$$PYTHONPATH$$VENV;$$PIP_CACHE_DIR;$(PIP_ARGS);$(LAB_ARGS)" > seen',
        "sleep 1; echo 'http://127.0.0.1:81/lab/tree/00_start.ipynb?token=ab12'; sleep 600 & echo $$! > pid; wait",
    )
    with script.make_lab(path, "--one --two", LIMIT, script.Steps()) as lab:
        assert (lab.address, lab.token, lab.work) == ("http://127.0.0.1:81", "ab12", path / "work")
    assert gone(int((path / "pid").read_text()))
    seen = (path / "seen").read_text().strip()
    assert re.fullmatch(rf";{tmp_path}/pip;--one --two;--no-browser --port \d+", seen)
    assert [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()] == [
        "make lab: environment and packages",
        "make lab: JupyterLab is there",
    ]


def gone(pid: int) -> bool:
    """Whether a process has ended, or does so within a while (it was sent a signal, and init has to collect it)."""
    try:
        _, alive = psutil.wait_procs([psutil.Process(pid)], timeout=20)
    except psutil.NoSuchProcess:
        return True
    return not alive or alive[0].status() == psutil.STATUS_ZOMBIE


def test_what_make_said_is_told_when_it_fails(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAKELEVEL", "1")  # as under `make test`
    path = clone(tmp_path, "echo no such package; exit 1")
    told = pytest.raises(RuntimeError, match=r"ended without an address.*\nno such package")
    with told, script.make_lab(path, "", LIMIT, script.Steps()):
        pass


def test_a_lab_that_does_not_come_is_given_up(script: ModuleType, tmp_path: Path) -> None:
    path = clone(tmp_path, "sleep 600")
    told = pytest.raises(RuntimeError, match=r"no address within 0\.5 seconds")
    with told, script.make_lab(path, "", 0.5, script.Steps()):
        pass


def test_the_first_slider_of_notebook_01_is_one_that_the_browser_tests_move(script: ModuleType) -> None:
    seats = importlib.import_module("seats").SEATS
    (seat,) = [seat for seat in seats if seat.notebook.startswith("01_")]
    text = (ROOT / "notebooks" / seat.name).read_text(encoding="utf-8")
    calls = sorted((text.index(widget.call), widget.call) for widget in seat.widgets)
    assert calls[0][1] == seat.widgets[0].call and seat.widgets[0].moves[0].keys == "ArrowRight"
