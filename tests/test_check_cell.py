"""What a panel says about the answer's cell: an older version was checked, it leans on others, it is half done."""

from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from cells import CHECK, RIGHT, STUB, WRONG, Notebook
from helpers import ROOT
from kvlab import session
from kvlab.check.panel import State
from notebook_runs import shown

STALE = "This is about the version that ran last; the cell has changed or stopped with an error since."
TWO = 'two = Two()\nt.equal(two.twice(), 4, "two twos")'


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.delenv("KVLAB_STRICT", raising=False)
    return Notebook()


def told(notebook: Notebook, capsys: pytest.CaptureFixture[str], answer: str, lines: str = CHECK) -> str:
    notebook.check(answer, lines)
    return capsys.readouterr().out


# --- a missing name ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("prompt_len = x\n    return 2 * promt_len", "a typo, did you mean `prompt_len`?"),
        ("return 2 * scalee", "a typo, did you mean `scale`?"),
        ("return 2 * maxx(x, x)", "a typo, did you mean `max`?"),
        ("y = 2\n    return [y * z for z in [x] if yss][0]", "`yss` is neither defined nor imported in this cell"),
        ("times = 2\n    return time.time()", "`time` is neither defined nor imported in this cell"),
        ("return none", "Python writes `None`"),
    ],
)
def test_a_missing_name(notebook: Notebook, capsys: pytest.CaptureFixture[str], body: str, words: str) -> None:
    out = told(notebook, capsys, f"scale = 2\ndef double(x):\n    {body}")
    assert f"likely mistake: {words}" in out
    assert "the rule" not in out, "the rule of the check has nothing to do with it"


def test_a_name_that_another_cell_of_the_session_defined(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "cells", lambda: ["def helper(x): return x", "the check"])
    out = told(notebook, capsys, "def double(x):\n    return helper(x)")
    assert "the answer leans on another cell; all that it needs goes into its own cell" in out


def test_no_rule_for_what_is_not_about_the_task(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(notebook, capsys, "def double(x):\n    import no_such_module")
    assert "ModuleNotFoundError" in out and "the rule" not in out
    out = told(notebook, capsys, "def double(x):\n    return np.zeros(10**15)")
    assert "MemoryError" in out and "the rule" not in out
    assert "likely mistake: not enough memory for what this line asks for: a smaller array? Else close" in out
    assert "the rule: twice" in told(notebook, capsys, "def double(x):\n    return x / 0")
    out = told(notebook, capsys, "def double(x):\n    raise MemoryError('no free block')")
    assert "the rule: twice" in out and "likely mistake" not in out, "a pool may be full; the machine is not"


def test_a_sum_without_a_first_value(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(notebook, capsys, "def double(x):\n    total += x\n    return total")
    words = "give it a first one before this line (or the loop, or branch, that sets it never ran)"
    assert f"likely mistake: `total` has no value yet: {words}" in out


# --- half done ---------------------------------------------------------------------------------------------------------


def two(value: str, twice: str) -> str:
    return f"class Two:\n    def value(self):\n        {value}\n    def twice(self):\n        {twice}\ndouble = Two"


def test_a_half_done_class(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    assert "not attempted yet" in told(notebook, capsys, two(STUB, STUB), TWO)
    out = told(notebook, capsys, two(STUB, "return 2 * self.value()"), TWO)
    assert "double: not right yet\n  `value` is still open (line 4 of your cell)\n" in out
    out = told(notebook, capsys, two("return 2", STUB), TWO)
    assert "`twice` is still open (line 6 of your cell)" in out
    assert "double: right" in told(notebook, capsys, two("return 2", "return 2 * self.value()"), TWO)


# --- the answer leans on another cell ----------------------------------------------------------------------------------


def test_a_right_answer_that_leans_on_another_cell(notebook: Notebook, capsys: pytest.CaptureFixture[str]) -> None:
    notebook.run("from math import hypot\ndef my_helper(x):\n    return 2 * x")
    out = told(notebook, capsys, "def double(x):\n    return my_helper(x)")
    words = "uses `my_helper` from another cell; only this cell is graded: move it in"
    assert out == f"✓ double: right\n  right here, but it {words}\n"
    assert notebook.namespace["t"].state is State.RIGHT
    out = told(notebook, capsys, "def double(x):\n    return my_helper(x) if hypot(3, 4) == 5 else gone")
    assert "uses `hypot` and `my_helper` from another cell; only this cell is graded: move them in" in out
    own = "def my_helper(x):\n    return np.multiply(2, x)\ndef double(x):\n    return my_helper(x)"
    assert told(notebook, capsys, own) == "✓ double: right\n"


# --- an older version --------------------------------------------------------------------------------------------------


def cell(answer: str) -> str:
    return f"# exercise: double\n{answer}"


def stale(notebook: Notebook, monkeypatch: pytest.MonkeyPatch, ran: str, *typed: str) -> State:
    """The state when `ran` is what defines `double`, and these cells were run in this session, the check last."""
    monkeypatch.setattr(session, "cells", lambda: [*typed, "with check.exercise('double') as t: ..."])
    return notebook.check(ran, CHECK)


SYNTAX = cell("def double(x):\n    return 2 * (x")
RENAMED = cell("def duoble(x):\n    return 2 * x")


@pytest.mark.parametrize("newer", [SYNTAX, RENAMED])
def test_an_older_version_is_not_called_right(
    notebook: Notebook, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, newer: str
) -> None:
    assert stale(notebook, monkeypatch, RIGHT, cell(RIGHT), newer) is State.STALE
    out = capsys.readouterr().out
    assert STALE in out and "right" not in out.splitlines()[0]
    assert stale(notebook, monkeypatch, f"def double(x):\n    {STUB}", cell(f"def double(x):\n    {STUB}"), newer) is (
        State.STALE
    )
    assert "not attempted" not in capsys.readouterr().out
    assert stale(notebook, monkeypatch, WRONG, cell(WRONG), newer) is State.WRONG
    out = capsys.readouterr().out
    assert STALE in out and "expected: 6" in out


def test_what_is_no_older_version(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    for typed in (
        [cell(RIGHT)],
        [SYNTAX, cell(RIGHT)],
        [cell(RIGHT), SYNTAX, cell(RIGHT) + "  \n"],
        [cell(RIGHT), cell(WRONG).replace("double", "double_down"), "x = 1"],
        [cell(WRONG)],  # what defines it came from no cell that we know
        [],
    ):
        assert stale(notebook, monkeypatch, RIGHT, *typed) is State.RIGHT, typed


def test_in_a_kernel(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With IPython's own history: magics in the answer, then an edit that is no Python."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}")
    monkeypatch.delenv("KVLAB_STRICT", raising=False)
    good = "# exercise: double\n%matplotlib inline\nimport math\nx = !true\ndef double(x):\n    return 2 * x"
    check = f"from kvlab import check\nwith check.exercise('double', closed=[]) as t:\n    {CHECK}"
    own = good.replace("# exercise: double\n", "").replace("2 *", "1 + 1 +")
    sources = [good, check, good + ")", check, good, check, own.replace("1 + 1 + x", "x + x"), check]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(book, timeout=120, allow_errors=True).execute()
    panels = [shown(nbformat.v4.new_notebook(cells=[book.cells[i]])) for i in (1, 3, 5, 7)]
    assert [panel.split(":")[0] for panel in panels] == ["✓ double", "△ double", "✓ double", "✓ double"]
    assert STALE in panels[1]
