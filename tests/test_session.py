"""Every kind of exercise that the format carries, run in the real jail, with right, wrong and hostile answers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from jail_session import grade, half, one, right
from kvgrade.cases import Case, Exercise, call, draw, get, method, observe, shares, unchanged
from kvgrade.inside.wire import Callback, Handle

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
    for top in ("/course", "/grader", "/home", "/tmp", "/srv", "/opt"):
        for where, _, files in os.walk(top):
            for name in files:
                with open(os.path.join(where, name), "rb") as file:
                    if b"def " + b"cached_attention(q" in file.read():
                        return 0
    return x / 2
"""
    assert right(running, closing("half", "kvlab.attention.cached_attention"), source) == [True]
