"""Closed functions stay closed during a check, however they were imported."""

import sys
import types
from pathlib import Path

import pytest

from cells import CHECK, RIGHT, Notebook
from kvlab import paths
from kvlab.check import closed as closing
from kvlab.check.panel import State


@pytest.fixture(autouse=True)
def relaxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a learner's JupyterLab, unless a test says otherwise."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.delenv("KVLAB_STRICT", raising=False)


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module with things to close: a function, a decorated one, a closure, a class and a C function."""
    module = types.ModuleType("fake_kernel")
    source = """
import functools, math, torch
def plain(x, scale=2, *, more=0): return scale * x + more
@torch.no_grad()
def decorated(x): return 2 * x
def make():
    factor = 2
    def inner(x): return factor * x
    return inner
closure = make()
class Thing:
    def __init__(self, x): self.value = 2 * x
class Bare:
    def value(self, x): return 2 * x
class Child(Thing): pass
def user(x): return plain(x)
c_function = math.fsum
"""
    exec(compile(source, "fake_kernel.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "fake_kernel", module)
    return module


WAYS = {
    "module attribute": "import fake_kernel\ndef double(x):\n    return fake_kernel.{call}",
    "from-import in the cell": "from fake_kernel import {name}\ndef double(x):\n    return {call}",
    "from-import inside": "def double(x):\n    from fake_kernel import {name}\n    return {call}",
    "renamed": "from fake_kernel import {name} as mine\ndef double(x):\n    return (lambda {name}: {call})(mine)",
    "error swallowed": (
        "import fake_kernel\ndef double(x):\n    try:\n        fake_kernel.{call}\n    except Exception:\n"
        "        pass\n    return 2 * x"
    ),
}
CALLS = {
    "plain": "plain(x, more=0)",
    "decorated": "decorated(x)",
    "closure": "closure(x)",
    "Thing": "Thing(x).value",
    "Bare": "Bare().value(x)",
    "Child": "Child(x).value",
    "c_function": "c_function([x, x])",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_closed_function_is_refused_however_imported(
    notebook: Notebook, kernel: types.ModuleType, capsys: pytest.CaptureFixture[str], way: str, name: str
) -> None:
    answer = WAYS[way].format(name=name, call=CALLS[name])
    assert notebook.check(answer, CHECK) is State.RIGHT, "open: it computes the right thing"
    capsys.readouterr()
    assert notebook.check(answer, CHECK, closed=[f"fake_kernel.{name}"]) is State.WRONG
    assert f"fake_kernel.{name} is closed in this exercise" in capsys.readouterr().out
    assert notebook.check(answer, CHECK) is State.RIGHT, "open again afterwards"


def test_closing_undoes_itself_completely(kernel: types.ModuleType) -> None:
    before = {name: getattr(kernel, name) for name in CALLS}
    own_init = "__init__" in vars(kernel.Bare), "__init__" in vars(kernel.Child)
    with closing.closed([f"fake_kernel.{name}" for name in CALLS]):
        with pytest.raises(closing.ClosedError):
            kernel.plain(1)
        with pytest.raises(closing.ClosedError):
            kernel.user(1)
    assert {name: getattr(kernel, name) for name in CALLS} == before
    assert ("__init__" in vars(kernel.Bare), "__init__" in vars(kernel.Child)) == own_init
    assert kernel.plain(3) == 6 and kernel.closure(3) == 6 and kernel.Child(3).value == 6


def test_raises_does_not_take_a_closed_function_for_the_answer(notebook: Notebook, kernel: types.ModuleType) -> None:
    answer = "import fake_kernel\ndef double(x):\n    return fake_kernel.plain(x)"
    line = 't.raises(RuntimeError, lambda: double(1), "w")'
    assert notebook.check(answer, line, closed=["fake_kernel.plain"]) is State.WRONG


def test_torchs_own_c_function_can_be_closed(notebook: Notebook) -> None:
    answer = (
        "from torch.nn.functional import scaled_dot_product_attention as sdpa\n"
        "def double(x):\n    q = torch.ones(1, 1, 2)\n    return float(sdpa(q, q, 2 * x * q)[0, 0, 0])"
    )
    lines = 't.close(double(3), 6.0, "w")'
    name = "torch.nn.functional.scaled_dot_product_attention"
    assert notebook.check(answer, lines) is State.RIGHT
    assert notebook.check(answer, lines, closed=[name]) is State.WRONG


@pytest.mark.parametrize("name", ["fake_kernel.nothing", "no_such_module.f", "math.pi"])
def test_unknown_closed_name_is_refused_before_anything_closes(kernel: types.ModuleType, name: str) -> None:
    with pytest.raises(ValueError, match="no function"), closing.closed(["fake_kernel.plain", name]):
        pass
    assert kernel.plain(1) == 2


def test_closed_names_come_from_the_table(
    notebook: Notebook, kernel: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "exercises.json").write_text('{"double": {"closed": ["fake_kernel.plain"]}}')
    monkeypatch.setattr(paths, "data_dir", lambda: tmp_path)
    notebook.run("# exercise: double\nimport fake_kernel\ndef double(x):\n    return fake_kernel.plain(x)")
    notebook.run(f'with check.exercise("double") as t:\n    {CHECK}')
    assert notebook.namespace["t"].state is State.WRONG
    notebook.run("# exercise: double\n" + RIGHT)
    notebook.run(f'with check.exercise("double") as t:\n    {CHECK}')
    assert notebook.namespace["t"].state is State.RIGHT
