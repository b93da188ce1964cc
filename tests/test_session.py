"""Every kind of exercise that the format carries, run in the real jail, with right, wrong and hostile answers."""

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from helpers import require
from kvgrade import verdict
from kvgrade.cases import Case, Exercise, Group, Mistake, call, draw, get, method, observe, shares, unchanged
from kvgrade.inside.confine import Limits
from kvgrade.inside.wire import Callback, Handle
from kvgrade.session import Session

CLOSED = ["kvlab.attention.cached_attention", "kvlab.arithmetic.kv_cache_bytes", "torch.nn.functional.silu"]


@pytest.fixture(scope="module")
def running():
    require("bubblewrap")
    with Session(CLOSED, limits=Limits(files=200)) as session:
        yield session


def one(name: str, oracle: Any, *cases: Case, **options: Any) -> Exercise:
    """An exercise with one group per case, one point each."""
    groups = [Group(f"case {i}", 1, f"why {i}", lambda _, case=case: [case]) for i, case in enumerate(cases)]
    return Exercise(name, {name: oracle}, groups, **options)


def grade(session: Session, exercise: Exercise, source: str) -> verdict.ExerciseVerdict:
    drawn = draw(exercise, 1)
    return verdict.judge(exercise, drawn, session.run(exercise, source, drawn).groups)


def right(session: Session, exercise: Exercise, source: str) -> list[bool]:
    return [group.right for group in grade(session, exercise, source).groups]


# --- functions on numbers and arrays, tensors ------------------------------------------------------------------------


def double(x):
    if np.any(np.asarray(x) < 0):
        raise ValueError
    return 2 * x


DOUBLE = one("double", double, *(Case(call("double", x)) for x in (3, 0.5, np.arange(3.0), torch.ones(2), -1)))


@pytest.mark.parametrize(
    "source",
    [
        "def double(x):\n    if (x < 0) if np.isscalar(x) else (x < 0).any(): raise ValueError\n    return x + x",
        "%matplotlib inline\nimport warnings, sys\n"
        "def double(x):\n    warnings.warn('!'); print('x' * 10**5); print('y', file=sys.stderr)\n"
        "    if np.asarray(x).min() < 0: raise ValueError\n    return (np.asarray(x) * 2).tolist()",
        "%%time\ndef double(x):\n    if np.min(np.asarray(x)) < 0: raise ValueError\n    return 2 * torch.as_tensor(x)",
        "def double(x):\n    if np.min(np.asarray(x)) < 0: raise ValueError\n    return np.float32(2) * np.asarray(x)\n"
        "!pip list\ndouble?\nget_ipython().run_line_magic('load_ext', 'autoreload')\ndisplay(double(1))\nundefined_name",
    ],
    ids=["plain", "noisy", "cell magic", "shell lines, then a NameError"],
)
def test_right_answers_in_any_style(running, source):
    assert right(running, DOUBLE, source) == [True] * 5


def test_wrong_values_errors_and_types(running):
    source = (
        "def double(x):\n    if isinstance(x, int): return x\n    return object() if isinstance(x, float) else 1 / 0"
    )
    result = grade(running, DOUBLE, source)
    assert [group.right for group in result.groups] == [False] * 5
    assert result.groups[1].seen == "the result is an object of type object"
    assert "ZeroDivisionError" in result.groups[2].seen and "line 3" in result.groups[2].seen
    assert result.groups[4].seen == "no ValueError was raised"


def test_inputs_are_fresh_for_each_case_and_watched_where_asked(running):
    x = np.ones(3)
    watched = one("double", lambda x: 2 * x, Case(call("double", x), unchanged(0)), Case(call("double", x)))
    assert right(running, watched, "def double(x):\n    x *= 2\n    return x") == [False, True]
    assert right(running, watched, "def double(x):\n    return x * 2") == [True, True]


def test_an_answer_alone_in_its_cell(running):
    leaning = "def double(x):\n    return 2 * helper_of_another_cell(x)"
    result = grade(running, DOUBLE, leaning)
    assert not any(group.right for group in result.groups)
    assert "NameError" in result.groups[0].seen


def test_a_name_that_is_not_defined(running):
    drawn = draw(DOUBLE, 1)
    answered = running.run(DOUBLE, "def dubble(x):\n    return 2 * x", drawn)
    assert not answered.defined


# --- classes ---------------------------------------------------------------------------------------------------------


class Shelf:
    def __init__(self, size):
        self.rows = np.zeros(size)
        self.n = 0

    def put(self, x):
        if self.n == len(self.rows):
            raise ValueError
        self.rows[self.n] = x
        self.n += 1

    @property
    def free(self):
        return len(self.rows) - self.n

    def view(self):
        return self.rows[: self.n]


SHELF = one(
    "Shelf",
    Shelf,
    Case(call("Shelf", 2), method(0, "put", 1.5), get(0, "free"), method(0, "view")),
    Case(call("Shelf", 1), method(0, "put", 1), method(0, "put", 2), method(0, "view")),
    Case(call("Shelf", 2), method(0, "put", 1), method(0, "view"), method(0, "view"), shares([2], [3])),
)
SHELF_SOURCE = """
class Shelf:
    def __init__(self, size):
        self.size, self.items = size, np.zeros(size)
        self.n = 0
    def put(self, x):
        if self.n == self.size: raise ValueError("full")
        self.items[self.n] = x; self.n += 1
    @property
    def free(self): return self.size - self.n
    def view(self): return self.items[:self.n]
"""


def test_classes_by_scripts(running):
    assert right(running, SHELF, SHELF_SOURCE) == [True] * 3
    assert right(running, SHELF, SHELF_SOURCE.replace("[:self.n]", "[:self.n].copy()")) == [True, True, False]
    assert right(running, SHELF, SHELF_SOURCE.replace("if self.n == self.size: raise", "if 0: raise")) == [
        True,
        False,
        True,
    ]
    assert right(running, SHELF, "class Shelf:\n    pass") == [False] * 3


# --- callbacks: the other side lives in the grader, and is counted there ---------------------------------------------


class Model:
    """A model whose cache is a handle: adds up what it is fed, in chunks of at most `most`."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.cache: list[int] = []
        self.sizes: list[int] = []
        self.functions: Mapping[str, Any] = {"model": self.model}

    def model(self, ids: Any, cache: Any) -> Any:
        if cache != Handle(1):
            raise ValueError("this is not the cache")
        values = [int(x) for x in ids]
        self.sizes.append(len(values))
        self.cache += values
        return torch.tensor([float(sum(self.cache[: i + 1])) for i in range(len(values))])

    def observe(self) -> Any:
        return {"sizes": self.sizes, "cache": self.cache}


def chunked(model, ids, chunk, cache):
    for start in range(0, len(ids), chunk):
        out = model(ids[start : start + chunk], cache)
    return out[-1]


def prefill_case(n: int, chunk: int) -> Case:
    ids = torch.arange(n)
    step = call("chunked", Callback("model"), ids, chunk, Handle(1))
    return Case(step, observe(), world=lambda: Model(chunk))


CHUNKED = one("chunked", chunked, prefill_case(7, 3), prefill_case(4, 4))


def test_callbacks_are_called_over_the_pipe_and_counted_by_the_grader(running):
    loop = "def chunked(model, ids, chunk, cache):\n    for part in ids.split(chunk): out = model(part, cache)\n"
    assert right(running, CHUNKED, loop + "    return out[-1]") == [True, True]
    once = "def chunked(model, ids, chunk, cache):\n    return model(ids, cache)[-1]"
    assert right(running, CHUNKED, once) == [False, True]
    lying = loop.replace("model(part, cache)", "model(part, cache); model.sizes = [3, 3, 1]") + "    return out[-1]"
    assert right(running, CHUNKED, lying) == [True, True]  # an attribute of the learner's own function: no harm
    twice = loop.replace("model(part, cache)", "model(part, cache); model(part[:0], cache)") + "    return out[-1]"
    assert right(running, CHUNKED, twice) == [False, False]


def test_bad_calls_of_a_callback_raise_in_the_answer(running):
    source = """
def chunked(model, ids, chunk, cache):
    for bad in (None, 3, "x"):
        try:
            model(ids, bad)
        except ValueError as error:
            assert "this is not the cache" in str(error)
    for part in ids.split(chunk):
        out = model(part, cache)
    return out[-1]
"""
    assert right(running, CHUNKED, source) == [True, True]
    endless = "def chunked(model, ids, chunk, cache):\n    while True: model(ids[:0], cache)"
    exercise = one("chunked", chunked, prefill_case(7, 3), seconds=2)
    result = grade(running, exercise, endless)
    assert result.groups[0].mistake == "stopped" and "loop without an end" in result.groups[0].why


# --- memory ----------------------------------------------------------------------------------------------------------


def total(n):
    return float(n)


def test_memory_bounded_cases(running):
    case = Case(call("total", 3000), extra_memory=40 << 20)
    exercise = one("total", total, case, Case(call("total", 10)))
    assert right(running, exercise, "def total(n):\n    return sum(1.0 for _ in range(n))") == [True, True]
    square = "def total(n):\n    return np.ones((n, n)).sum() / n"
    result = grade(running, exercise, square)
    assert [group.right for group in result.groups] == [False, True]
    assert "MemoryError" in result.groups[0].seen


# --- closed functions ------------------------------------------------------------------------------------------------


def half(x):
    return x / 2


HALF = one("half", half, Case(call("half", 4.0)))


def closing(name: str, *closed: str) -> Exercise:
    exercise = one(name, half, Case(call(name, 4.0)))
    object.__setattr__(exercise, "closed", closed)
    return exercise


@pytest.mark.parametrize(
    "source",
    [
        "from kvlab.attention import cached_attention\ndef half(x):\n    return cached_attention(x, x, x)",
        "import kvlab.attention as a\ndef half(x):\n    try: a.cached_attention(1, 2, 3)\n    except BaseException: pass\n    return x / 2",
    ],
)
def test_a_closed_function_raises_with_its_diagnosis(running, source):
    result = grade(running, closing("half", "kvlab.attention.cached_attention"), source)
    assert result.groups[0].mistake == "closed"
    assert "kvlab.attention.cached_attention is closed in this exercise" in result.groups[0].why


def test_importing_what_holds_a_closed_function_harms_nobody(running):
    source = "from kvlab.attention import cached_attention, causal_mask\nimport kvlab.arithmetic\n"
    source += "def half(x):\n    return x / 2 if causal_mask(2, 2)[0, 0] else 0"
    assert right(running, closing("half", "kvlab.attention.cached_attention"), source) == [True]


def test_what_a_neighbour_closes_is_open(running):
    source = "from kvlab.arithmetic import kv_cache_bytes\ndef half(x):\n    return kv_cache_bytes(1, 1, 1, 1, 1, 1)"
    assert right(running, closing("half", "kvlab.attention.cached_attention"), source) == [True]
    result = grade(running, closing("half", "kvlab.arithmetic.kv_cache_bytes"), source)
    assert result.groups[0].mistake == "closed"


def test_a_closed_function_of_torch(running):
    source = "from torch.nn.functional import silu\ndef half(x):\n    silu(torch.ones(1))\n    return x / 2"
    assert grade(running, closing("half", "torch.nn.functional.silu"), source).groups[0].mistake == "closed"
    assert right(running, closing("half"), source) == [True]


def test_the_source_of_a_closed_function_is_nowhere_in_the_jail(running):
    source = """
import os
def half(x):
    for top in ("/course", "/grader", "/work", "/home", "/tmp", "/repo"):
        for where, _, files in os.walk(top):
            for name in files:
                with open(os.path.join(where, name), "rb") as file:
                    if b"def " + b"cached_attention(q" in file.read():
                        return 0
    return x / 2
"""
    assert right(running, closing("half", "kvlab.attention.cached_attention"), source) == [True]


# --- what goes wrong costs its own case, never the next exercise -----------------------------------------------------

BY_KIND = one("half", half, *(Case(call("half", x)) for x in (1.0, 2.0, 3.0)), seconds=2)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("import os; os._exit(0)", "ended"),
        ("import os; os._exit(3)", "exit status 3"),
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os, time; os.kill(os.getppid(), 9); time.sleep(9)", "process ended"),
        ("while True: pass", "no answer within 2 s"),
        ("import time; time.sleep(1e6)", "no answer within 2 s"),
        ("import os; [os.close(fd) for fd in range(3, 20)]", ""),
        ("import os; [os.write(fd, b'x' * 100) for fd in range(3, 20) if fd > 2]", ""),
        ("[open(f'/tmp/{i}', 'w') for i in range(1000)]", ""),
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


def test_the_time_of_an_exercise_is_limited():
    require("bubblewrap")
    exercise = one("half", half, *(Case(call("half", float(x))) for x in range(20)), seconds=30)
    began = time.monotonic()
    with Session([], seconds=12) as session:
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
        Session([])
    with Session([], isolated=False) as session:
        assert right(session, HALF, "def half(x):\n    return x / 2") == [True]
