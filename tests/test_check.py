"""kvlab.check: what a learner is told, and when it raises."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from cells import CHECK, RIGHT, STUB, WRONG, Notebook
from kvlab import check, paths
from kvlab.check.panel import Panel, State


@pytest.fixture(autouse=True)
def relaxed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a learner's JupyterLab, unless a test says otherwise."""
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.delenv("KVLAB_STRICT", raising=False)


@pytest.fixture
def notebook() -> Notebook:
    return Notebook()


def test_right_wrong_not_attempted(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check(f"def double(x):\n    {STUB}", CHECK) is State.NOT_ATTEMPTED
    assert "not attempted yet" in capsys.readouterr().out
    assert notebook.check(WRONG, CHECK) is State.WRONG
    out = capsys.readouterr().out
    assert "expected: 6" in out and "came: 5" in out and "twice, not two more" in out
    assert notebook.check(RIGHT, CHECK) is State.RIGHT
    assert "double: right" in capsys.readouterr().out


def test_only_the_first_failure_is_told(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    lines = 't.equal(double(2), 4, "first")\nt.equal(double(3), 6, "second")\nt.equal(double(4), 8, "third")'
    assert notebook.check(WRONG, lines) is State.WRONG
    out = capsys.readouterr().out
    assert "the rule: second" in out and "first" not in out and "third" not in out
    assert "the check ran: t.equal(double(3), 6) (line 3)" in out


def test_error_names_the_learners_line(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    answer = "import numpy as np\ndef double(x):\n    y = np.zeros((2, 3))\n    return y @ y"
    assert notebook.check(answer, CHECK) is State.WRONG
    out = capsys.readouterr().out
    assert "ValueError" in out and "line 5 of your cell, in double: return y @ y" in out
    assert "the check ran: t.equal(double(3), 6) (line 2)" in out and "the rule: twice, not two more" in out


def test_error_in_a_preparing_line_gets_the_rule_of_the_next(
    notebook: Notebook, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = 't.equal(double(2), 4, "first")\nx = double(\n    None\n)\nt.equal(x, [], "no result for None")'
    assert notebook.check(RIGHT, lines) is State.WRONG
    out = capsys.readouterr().out
    assert "the check ran: x = double(None) (line 3)" in out and "the rule: no result for None" in out


def test_an_attribute_that_hides_a_method_is_named(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    answer = (
        "class Two:\n    def __init__(self):\n        self.{0} = [2]\n"
        "    def value(self):\n        return 2\n    def twice(self):\n        return 2 * self.value()"
    )
    for hidden, line in (("value", "Two().twice()"), ("twice", "two.twice()")):
        notebook.check(answer.format(hidden), f'two = Two()\nt.equal({line}, 4, "two twos")')
        assert f"likely mistake: an attribute hides your method `{hidden}`" in capsys.readouterr().out
    assert notebook.check(answer.format("other"), 't.equal(Two().twice(), 4, "two twos")') is State.RIGHT


def test_a_wrong_shape_is_told_once(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.check("def double(x):\n    return np.ones((4, 5))", 't.equal(double(3), np.ones((5, 4)), "shape")')
    out = capsys.readouterr().out
    assert "expected: shape (5, 4)" in out and out.count("shape (4, 5)") == 1


def test_unusable_result_names_the_line_of_the_check(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check("def double(x):\n    pass", 't.equal(double(3).tolist(), [6], "no")') is State.WRONG
    out = capsys.readouterr().out
    assert "AttributeError" in out and "the check ran: t.equal(double(3).tolist(), [6]) (line 2)" in out


def test_missing_function_says_run_the_cell(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check("", CHECK) is State.NOT_ATTEMPTED
    assert "double is not defined here. Run the answer cell first" in capsys.readouterr().out


def test_missing_helper_says_one_cell(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check("def double(x):\n    return helper(x)", CHECK) is State.WRONG
    assert "`helper` is neither defined nor imported in this cell" in capsys.readouterr().out


EMPTY_LOOP = "def double(x):\n    for _ in range(x):\n        out = 2 * x\n    return out"


def test_an_empty_variable_is_no_missing_helper(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check(EMPTY_LOOP, 't.equal(double(0), 0, "twice nothing")') is State.WRONG
    out = capsys.readouterr().out
    assert "your code stopped with: UnboundLocalError" in out and "likely mistake: `out` has no value yet" in out
    assert "in this cell" not in out and "the rule: twice nothing" in out


def test_an_empty_variable_where_another_error_is_due(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check(EMPTY_LOOP, 't.raises(ValueError, lambda: double(0), "0 is refused")') is State.WRONG
    out = capsys.readouterr().out
    assert "expected: a ValueError" in out and "came: UnboundLocalError" in out and "the rule: 0 is refused" in out
    assert "likely mistake" not in out


def test_a_missing_helper_where_an_error_is_due(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    answer = "def double(x):\n    return helper(x)"
    assert notebook.check(answer, 't.raises(ValueError, lambda: double(0), "0 is refused")') is State.WRONG
    assert "neither defined nor imported in this cell" in capsys.readouterr().out


def test_torchs_own_not_implemented_is_no_stub(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    answer = "def double(x):\n    return torch.empty(2, device='meta').tolist()"
    with pytest.raises(NotImplementedError):
        torch.empty(2, device="meta").tolist()
    assert notebook.check(answer, CHECK) is State.WRONG
    assert "NotImplementedError" in capsys.readouterr().out


def test_stub_inside_raises_is_not_attempted(notebook: Notebook) -> None:
    lines = 't.raises(ValueError, lambda: double(-1), "negative")'
    assert notebook.check(f"def double(x):\n    {STUB}", lines) is State.NOT_ATTEMPTED


def test_missing_return(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check("def double(x):\n    2 * x", CHECK) is State.WRONG
    assert "`return` missing" in capsys.readouterr().out


def test_sys_exit_does_not_end_the_notebook(notebook: Notebook) -> None:
    assert notebook.check("import sys\ndef double(x):\n    sys.exit(0)", CHECK) is State.WRONG


def test_endless_recursion_is_told(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert notebook.check("def double(x):\n    return double(x)", CHECK) is State.WRONG
    assert "RecursionError" in capsys.readouterr().out


def test_interrupt_goes_through(notebook: Notebook) -> None:
    with pytest.raises(KeyboardInterrupt):
        notebook.check("def double(x):\n    raise KeyboardInterrupt", CHECK)


def test_a_check_without_lines_is_refused(notebook: Notebook) -> None:
    with pytest.raises(ValueError, match="nothing was compared"):
        notebook.check(RIGHT, "pass")


@pytest.mark.parametrize("variable", [("NBGRADER_EXECUTION", "validate"), ("KVLAB_STRICT", "1")])
@pytest.mark.parametrize("answer", [WRONG, f"def double(x):\n    {STUB}", "def double(x):\n    return 1 / 0", ""])
def test_strict_raises_the_panels_text(
    notebook: Notebook, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str], answer: str
) -> None:
    monkeypatch.setenv(*variable)
    with pytest.raises(AssertionError, match=r"double: not (right|attempted) yet"):
        notebook.check(answer, CHECK)
    assert Notebook().check(RIGHT, CHECK) is State.RIGHT


def test_strict_off_is_off(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLAB_STRICT", "0")
    assert notebook.check(WRONG, CHECK) is State.WRONG


def test_nothing_reaches_stderr(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    answer = (
        "import sys, warnings\ndef double(x):\n    warnings.warn('mind this')\n"
        "    print('debug', file=sys.stderr)\n    return 2 * x"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert notebook.check(answer, CHECK) is State.RIGHT
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "debug" in captured.out, "the learner's own output is moved, not swallowed"


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ('t.true(double(1) == 2, "w")', State.RIGHT),
        ('t.true(np.bool_(False), "w")', State.WRONG),
        ('t.true(np.array([True, True]), "w")', State.WRONG),
        ('t.true(torch.tensor(True), "w")', State.RIGHT),
        ('t.raises(TypeError, lambda: double(None), "w")', State.RIGHT),
        ('t.raises(Exception, lambda: double(None), "w")', State.RIGHT),
        ('t.raises(ValueError, lambda: double(None), "w")', State.WRONG),
        ('t.raises(ValueError, lambda: double(1), "w")', State.WRONG),
        ('t.unchanged([1, 2], np.array([1, 2]), "w")', State.RIGHT),
        ('t.unchanged([1, 2], np.array([1, 3]), "w")', State.WRONG),
        ('a = np.zeros(4)\nt.shares_memory(a[:2], a, "w")', State.RIGHT),
        ('a = torch.zeros(4)\nt.shares_memory(a[:2], a, "w")', State.RIGHT),
        ('a = torch.zeros(4)\nt.shares_memory(a[:2].clone(), a, "w")', State.WRONG),
        ('a = np.zeros(4)\nt.shares_memory(a[:2], a[2:], "w")', State.WRONG),
        ('t.shares_memory([1], [1], "w")', State.WRONG),
    ],
)
def test_other_lines(notebook: Notebook, line: str, state: State) -> None:
    assert notebook.check(RIGHT, line) is state


def test_raises_tells_what_came_instead(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.check(RIGHT, 't.raises(ValueError, lambda: double(4), "refuse it")')
    assert "no error; the result was 8" in capsys.readouterr().out
    notebook.check(RIGHT, 't.raises(ValueError, lambda: double(None), "refuse it")')
    out = capsys.readouterr().out
    assert "TypeError" in out and "line 3 of your cell" in out


def test_panel_escapes_and_says_its_state_in_words() -> None:
    panel = Panel("x", State.WRONG, [("came", "<b>1</b>")])
    assert "<b>1</b>" not in panel.html and "&lt;b&gt;" in panel.html and "not right yet" in panel.html
    assert set(panel._repr_mimebundle_()) == {"text/plain", "text/html"}
    assert len({state.value[0] for state in State}) == len({state.value[2] for state in State}) == 4


# --- hints and solutions ---------------------------------------------------------------------------------------------


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    folder = tmp_path / "grading" / "units"
    folder.mkdir(parents=True)
    text = (Path(__file__).parent / "fixtures" / "90_tiny.py").read_text(encoding="utf-8")
    (folder / "90_tiny.py").write_text(text.replace("running_mean", "double"), encoding="utf-8")
    monkeypatch.setattr(paths, "repo_root", lambda: tmp_path)
    return folder


def test_solution_only_after_an_attempt(
    notebook: Notebook, units: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from kvlab.check import runner

    monkeypatch.setattr(runner, "_states", {})
    check.solution("double")
    notebook.check(f"def double(x):\n    {STUB}", CHECK)
    check.solution("double")
    assert "np.cumsum" not in capsys.readouterr().out
    notebook.check(WRONG, CHECK)
    capsys.readouterr()
    check.solution("double")
    out = capsys.readouterr().out
    assert out.startswith("# exercise: double\ndef double(") and "np.cumsum" in out and "SOLUTION" not in out
    (units / "90_tiny.py").unlink()
    check.solution("double")
    assert "not in this copy" in capsys.readouterr().out


def test_hint(units: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check.hint("double", 2)
    out = capsys.readouterr().out
    assert out.startswith("Hint 2 for double: A running sum") and "numpy has one" in out and "Divide" not in out
    with pytest.raises(ValueError, match="1 to 3"):
        check.hint("double", 4)
    (units.parents[1] / "data").mkdir()
    assert not (units.parents[1] / "data" / "exercises.json").exists()
    check.hint("nothing", 1)
    assert "No hints for nothing" in capsys.readouterr().out


def test_a_name_that_is_no_exercise(capsys: pytest.CaptureFixture[str]) -> None:
    check.hint("KVcache", 1)
    check.solution("KVcache")
    assert capsys.readouterr().out == "No exercise KVcache; did you mean KVCache?\n" * 2
    check.hint("zzz", 1)
    assert capsys.readouterr().out == "No exercise zzz. `course.exercises()` lists them all.\n"


def test_import_is_light() -> None:
    code = "import sys, kvlab.check; sys.exit(bool({'torch', 'ipywidgets', 'matplotlib'} & set(sys.modules)))"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0
