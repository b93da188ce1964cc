"""What an answer does to itself costs the case that was running; what it forges earns nothing."""

import time

import pytest

from helpers import require
from jail_session import HALF, grade, half, one, right
from kvgrade.cases import Case, Mistake, call
from kvgrade.session import Session

# --- what goes wrong costs its own case, never the next exercise -----------------------------------------------------

BY_KIND = one("half", half, *(Case(call("half", x)) for x in (1.0, 2.0, 3.0)), seconds=2)

STOP = """import contextlib, os, time
        with contextlib.suppress(OSError): os.kill(os.getppid(), 19)
        [open(f'/tmp/{i}', 'w').close() for i in range(1000)]"""


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("import os; os._exit(0)", "ended"),
        ("import os; os._exit(3)", "it left with an exit status"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os; os.kill(os.getppid(), 9)", ""),
        ("while True: pass", "no answer within 2 s"),
        ("import time; time.sleep(1e6)", "no answer within 2 s"),
        ("import os; [os.close(fd) for fd in range(3, 20)]", ""),
        ("import os; [os.write(fd, b'x' * 100) for fd in range(3, 20) if fd > 2]", ""),
        ("import time; [open(f'/tmp/{i}', 'w').close() for i in range(1000)]; time.sleep(9)", "too many files"),
        (STOP + "; time.sleep(9)", "too many files"),
    ],
)
def test_harm_in_one_case_costs_that_case(running, harm, told):
    source = f"def half(x):\n    if x == 2.0:\n        {harm}\n    return x / 2"
    result = grade(running, BY_KIND, source)
    assert [group.right for group in result.groups] == [True, False, True]
    assert result.groups[1].mistake in ("stopped", "") and told in result.groups[1].why
    assert right(running, HALF, "def half(x):\n    return x / 2") == [True]


@pytest.mark.parametrize("cell", ["import os; os._exit(0)", "while True: pass", "1 +", "\0", "raise KeyboardInterrupt"])
def test_a_cell_that_comes_to_no_end(running, cell, monkeypatch):
    monkeypatch.setattr("kvgrade.session.CELL_SECONDS", 2.0)
    assert right(running, BY_KIND, f"{cell}\ndef half(x):\n    return x / 2") == [False] * 3
    assert right(running, HALF, "def half(x):\n    return x / 2") == [True]


@pytest.mark.parametrize(
    "result",
    ["[0] * 10**7", "'x' * 10**9", "1 << 10**7", "np.zeros(10**8)", "(lambda l: l.append(l) or l)([])", "iter([1])"],
)
def test_monstrous_results_are_wrong_and_nothing_more(running, result):
    source = f"def half(x):\n    return {result} if x == 2.0 else x / 2"
    assert right(running, BY_KIND, source) == [True, False, True]


def test_nothing_is_handed_on_to_the_next_exercise(running):
    leave = "open('/tmp/left', 'w').write('1'); open('/home/jail/left', 'w').write('1')\nnp.left = 1\n"
    assert right(running, HALF, leave + "def half(x):\n    return x / 2") == [True]
    look = "import os\ndef half(x):\n    seen = os.path.exists('/tmp/left') or os.path.exists('/home/jail/left')\n"
    look += "    return 0 if seen or hasattr(np, 'left') else x / 2"
    assert right(running, HALF, look) == [True]


FORGE = """
import sys
steps = sys.modules["kvgrade.inside.steps"]
true_outcome = steps._Script.outcome
def outcome(self, number, step):
    found = true_outcome(self, number, step)
    FORGERY
    return found
steps._Script.outcome = outcome
def half(x):
    return x / 2
"""


@pytest.mark.parametrize(
    "forgery",
    [
        'found["raised"] = {"type": "ValueError", "mro": ["ValueError"], "message": "", "line": 1, "text": ""}',
        'found = {"raised": 5}',
        'found = {"raised": {"mro": np.arange(3)}}',
        'found = {"raised": {"mro": [1, 2]}}',
        'found = {"closed": [1]}',
        'found = {"right": True}',
        "found = [found]",
        "found = None",
    ],
)
def test_an_outcome_of_another_form_earns_nothing(running, forgery):
    def strict_half(x):
        if x == 2.0:
            raise ValueError
        return x / 2

    exercise = one("half", strict_half, *(Case(call("half", x)) for x in (1.0, 2.0)))
    result = grade(running, exercise, FORGE.replace("FORGERY", forgery))
    assert not any(group.right for group in result.groups)
    assert result.groups[0].why == "the answer broke the protocol"
    assert right(running, HALF, "def half(x):\n    return x / 2") == [True]


@pytest.mark.parametrize(
    "reply", ["np.arange(3)", "{'cell': 5}", "{'cell': {'mro': np.arange(3)}}", "[]", "{'cell': []}"]
)
def test_a_first_reply_of_another_form_earns_nothing(running, reply):
    source = f"""
import sys
frame = sys._getframe()
while "data_out" not in frame.f_locals:
    frame = frame.f_back
sys.modules["__main__"].__dict__.setdefault("x", 0)
worker = frame.f_globals
worker["send"](frame.f_locals["data_out"], {reply})
def half(x):
    return x / 2
"""
    result = grade(running, BY_KIND, source)
    assert not any(group.right for group in result.groups)
    assert right(running, HALF, "def half(x):\n    return x / 2") == [True]


def test_errors_with_half_characters_can_be_written(running):
    result = grade(running, HALF, "def half(x):\n    raise RuntimeError('\\ud800 \\x1b[31m')")
    assert result.groups[0].seen.encode("utf-8").startswith(b"RuntimeError (line 2 ")


def test_a_source_can_be_looked_up(running):
    source = "import inspect\ndef half(x):\n    return x / 2 if 'def half' in inspect.getsource(half) else 0"
    assert right(running, HALF, source) == [True]


def test_the_time_of_an_exercise_is_limited():
    require("bubblewrap")
    exercise = one("half", half, *(Case(call("half", float(x))) for x in range(20)), seconds=30)
    began = time.monotonic()
    with Session(seconds=12) as session:
        result = grade(session, exercise, "def half(x):\n    while True: pass")
    assert not any(group.right for group in result.groups)
    assert "the time for this exercise" in result.groups[0].why
    assert time.monotonic() - began < 40


def test_mistakes_give_their_diagnosis(running):
    ten = Mistake("times ten", "multiply by two, not by ten", {"double": lambda x: 10 * x})
    exercise = one("double", lambda x: 2 * x, Case(call("double", 3)), Case(call("double", 0)), mistakes=[ten])
    result = grade(running, exercise, "def double(x):\n    return 10 * x")
    assert [group.right for group in result.groups] == [False, True]
    assert result.diagnoses == ["times ten"] and result.groups[0].why == ten.why
    other = grade(running, exercise, "def double(x):\n    return 7 * x")
    assert other.diagnoses == ["case 0"] and other.groups[0].why == "why 0"


def test_without_isolation_only_when_asked(monkeypatch):
    monkeypatch.setattr("kvgrade.jail.unavailable", lambda: "there is none here.")
    with pytest.raises(RuntimeError, match="can't be isolated here: there is none here"):
        Session()
    with Session(isolated=False) as session:
        assert right(session, HALF, "def half(x):\n    return x / 2") == [True]
