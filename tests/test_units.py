"""Reading units: in agreement with jupytext, and with a line number for everything that is refused."""

import importlib
import re
import shutil
from pathlib import Path

import pytest

from kvgrade import units
from kvgrade.units import UnitError
from tiny_course import NAME, REPO, TINY, course, replace, write


@pytest.fixture
def built(tmp_path: Path) -> Path:
    root = course(tmp_path)
    write(root)
    return root


def units_to_compare() -> list[Path]:
    return [TINY, *units.find_units()]


@pytest.mark.parametrize("path", units_to_compare(), ids=lambda path: path.stem)
def test_reader_agrees_with_jupytext(path: Path) -> None:
    jupytext = importlib.import_module("jupytext")
    theirs = jupytext.read(path, fmt="py:percent").cells
    ours = units.read_unit(path).cells
    assert [c.cell_type for c in ours] == [c.cell_type for c in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.source == other.source
        assert mine.options == {k: v for k, v in other.metadata.items() if k != "lines_to_next_cell"}


@pytest.mark.parametrize("path", units_to_compare(), ids=lambda path: path.stem)
def test_a_unit_survives_jupytext(path: Path, tmp_path: Path) -> None:
    """Opened and saved in JupyterLab with grading/jupytext.toml, a unit has the same cells and options."""
    config = importlib.import_module("jupytext.config")
    jupytext = importlib.import_module("jupytext")
    settings = config.load_jupytext_configuration_file(str(REPO / "grading" / "jupytext.toml"))
    notebook = jupytext.read(path, fmt="py:percent", config=settings)
    for cell in notebook.cells:  # what JupyterLab adds
        cell.metadata.update({"trusted": True, "editable": True})
    saved = tmp_path / path.name
    saved.write_text(jupytext.writes(notebook, fmt="py:percent", config=settings), encoding="utf-8")
    assert not saved.read_text("utf-8").startswith("# ---")
    before, after = units.read_unit(path), units.read_unit(saved)
    assert [(c.source, c.options) for c in after.cells] == [(c.source, c.options) for c in before.cells]


REFUSED = {
    "unclosed marker": (replace("    ### END SOLUTION\n", ""), "without '### END"),
    "end without begin": (replace("    ### BEGIN SOLUTION\n    if len", "    if len"), "without '### BEGIN"),
    "nested": (replace("    if len(x)", "    ### BEGIN SOLUTION\n    if len(x)"), "a second '### BEGIN"),
    "odd marker": (
        replace("    ### BEGIN SOLUTION\n    if len", "    # BEGIN SOLUTION\n    if len"),
        "alone on its line",
    ),
    "marker in prose": (
        replace("# The end.", "# The end.\n# ### BEGIN SOLUTION\n# x\n# ### END SOLUTION"),
        "outside an exercise",
    ),
    "no first line": (replace("# exercise: running_mean\n", ""), "first line of the answer cell"),
    "no docstring": (replace('    """The mean', '    x = """The mean'), "no docstring"),
    "signature in the region": (
        lambda text: text.replace("    ### BEGIN SOLUTION\n    if len", "    if len").replace(
            "# exercise: running_mean\n", "# exercise: running_mean\n### BEGIN SOLUTION\n"
        ),
        "must still define running_mean",
    ),
    "method in the region": (
        lambda text: text.replace("        ### END SOLUTION\n\n    def add", "    def add").replace(
            '        """Add n."""\n        ### BEGIN SOLUTION\n', '        """Add n."""\n'
        ),
        "must still define Counter.add",
    ),
    "two regions in a function": (
        replace("    return np.cumsum", "    ### END SOLUTION\n    ### BEGIN SOLUTION\n    return np.cumsum"),
        "one per function",
    ),
    "no regions": (
        lambda text: text.replace("    ### BEGIN SOLUTION\n    if len", "    if len").replace(
            "    ### END SOLUTION\n", "", 1
        ),
        "clear the whole cell",
    ),
    "closed but not said": (replace("    Closed here: fractions.Fraction.\n", ""), "docstring has to say"),
    "two hints": (replace("# 3. Divide by how many values went into it.\n", ""), "has 2 hints"),
    "hint out of order": (replace("# 3. Divide", "# 2. Divide"), "where hint 3 is due"),
    "no check": (lambda text: re.sub(r'# %% check="counter".*?(?=# %%)', "", text, flags=re.S), "no check cell"),
    "no hints": (
        lambda text: re.sub(r'# %% \[markdown\] hints="counter".*?(?=# %%)', "", text, flags=re.S),
        "no hints cell",
    ),
    "check of another": (
        replace('check.exercise("counter")', 'check.exercise("running_mean")'),
        "must end with one block",
    ),
    "check goes on": (
        replace('each call adds to what is there")', 'each call adds to what is there")\n3.0'),
        "must end with one block",
    ),
    "check before exercise": (replace('hints="counter"', 'hints="running_mean"'), "is taken"),
    "name twice": (replace('manual="why_mean"', 'manual="counter"'), "is taken"),
    "no points": (replace('check="counter" points=1', 'check="counter"'), "needs points"),
    "zero points": (replace('check="counter" points=1', 'check="counter" points=0'), "needs points"),
    "half points": (replace('manual="why_mean" points=3', 'manual="why_mean" points=2.5'), "needs points"),
    "no minutes": (replace(" minutes=5", ""), "needs minutes"),
    "difficulty 6": (replace("difficulty=1", "difficulty=6"), "needs difficulty"),
    "no parameters": (replace('# %% tags=["parameters"]', "# %%"), "exactly one cell"),
    "two parameters": (replace("# %%\n# ruff", '# %% tags=["parameters"]\n# ruff'), "exactly one cell"),
    "derived parameter": (replace("SEED = 0", "SEED = 0\nTWICE = 2 * SEED"), "literal only"),
    "call in parameters": (replace("SEED = 0", "SEED = int(0)"), "literal only"),
    "raises-exception": (replace("# %%\n# ruff", '# %% tags=["raises-exception"]\n# ruff'), "not allowed"),
    "skip-execution": (replace("# %%\n# ruff", '# %% tags=["skip-execution"]\n# ruff'), "not allowed"),
    "hidden tests": (replace("# The end.", "# BEGIN HIDDEN TESTS"), "means something to nbgrader"),
    "syntax": (replace("import math", "import math math"), "does not parse"),
    "unknown option": (replace('check="counter" points=1', 'check="counter" poinst=1'), "unknown option 'poinst'"),
    "title": (replace("# %%\n# ruff", "# %% Imports\n# ruff"), "can't read 'Imports'"),
    "two roles": (replace('check="counter"', 'check="counter" hints="counter"'), "one role"),
    "wrong type": (replace('# %% [markdown] hints="counter"', '# %% hints="counter"'), "is a markdown cell"),
    "bare markdown": (replace("# The end.", "The end."), "starts with '# '"),
    "raw cell": (replace("# %% [markdown]\n# The end.", "# %% [raw]\n# The end."), "a cell is"),
    "no question": (lambda text: re.sub(r"# \*\*Question.*?#\n", "", text, flags=re.S), "question comes before"),
    "text on top": (lambda text: "# hello\n" + text, "before the first"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_builder_refuses(tmp_path: Path, case: str) -> None:
    edit, words = REFUSED[case]
    root = course(tmp_path, edit)
    text = (root / "grading" / "units" / TINY.name).read_text("utf-8")
    assert text != TINY.read_text("utf-8")
    with pytest.raises(UnitError) as caught:
        write(root)
    found = re.search(r"90_tiny\.py:(\d+): (.*)", str(caught.value))
    assert found and words in found[2], str(caught.value)
    assert 1 <= int(found[1]) <= len(text.splitlines())
    assert not (root / "notebooks").exists()


def test_message_points_at_the_line(tmp_path: Path) -> None:
    root = course(tmp_path, replace("SEED = 0", "SEED = int(0)"))
    line = (root / "grading" / "units" / TINY.name).read_text("utf-8").splitlines().index("SEED = int(0)") + 1
    with pytest.raises(UnitError, match=rf":{line}: "):
        write(root)


def test_a_private_helper_may_stay_in_the_solution(tmp_path: Path) -> None:
    method = "        return self.seen_so_far\n\n    def _reset(self) -> None:\n        self.seen_so_far = 0\n"
    assert b"_reset" not in write(course(tmp_path, replace("        return self.seen_so_far\n", method)))


def test_two_functions_in_one_exercise(tmp_path: Path) -> None:
    second = (
        'def running_sum(x: np.ndarray) -> np.ndarray:\n    """Sum so far."""\n    ### BEGIN SOLUTION\n'
        "    return np.add.accumulate(x)\n    ### END SOLUTION\n\n# %% [markdown] hints"
    )
    assert b"def running_sum(x" in write(course(tmp_path, replace("# %% [markdown] hints", second)))


def test_a_broken_quiz_is_refused(built: Path) -> None:
    (built / "data" / "quizzes").mkdir()
    (built / "data" / "quizzes" / f"{NAME}.json").write_text("[]")
    with pytest.raises(UnitError, match="must be a list of 5 questions"):
        write(built)


def test_an_exercise_name_is_used_in_one_unit_only(built: Path) -> None:
    shutil.copy(TINY, built / "grading" / "units" / "91_again.py")
    with pytest.raises(UnitError, match="exists in unit 90_tiny too"):
        write(built)


def test_a_unit_is_named_by_its_number_with_or_without_a_zero() -> None:
    assert units.find_units(["1"]) == units.find_units(["01"]) == units.find_units(["01_kv_cache"])
    for name in ("77", "011", "1_kv_cache"):
        with pytest.raises(ValueError, match="the units are"):
            units.find_units([name])
