"""The builder: one authored unit in, the same bytes out as nbgrader's command line, no solution in the release."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from kvgrade import release, stubs, units
from kvgrade.units import UnitError
from tiny_course import ENV, NAME, REPO, TINY, course, replace, write


@pytest.fixture
def built(tmp_path: Path) -> Path:
    root = course(tmp_path)
    write(root)
    return root


def test_build_is_deterministic_with_cold_and_warm_cache(built: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    first = (built / "notebooks" / f"{NAME}.ipynb").read_bytes()
    assert write(built) == first
    shutil.rmtree(built / "build")
    assert write(built) == first
    assert write(course(tmp_path_factory.mktemp("elsewhere"))) == first


def test_release_equals_nbgraders_command_line(built: Path) -> None:
    for arguments in (["generate_assignment", NAME], ["generate_assignment", NAME, "--no-db", "--force"]):
        command = [sys.executable, "-m", "nbgrader", *arguments]
        done = subprocess.run(command, cwd=built / "grading", env=ENV, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        by_nbgrader = built / "grading" / "release" / NAME / f"{NAME}.ipynb"
        assert by_nbgrader.read_bytes() == (built / "notebooks" / f"{NAME}.ipynb").read_bytes()
        by_nbgrader.unlink()
    assert (built / "grading" / "gradebook.db").exists(), "the first run was the plain one, with its database"


def test_release_is_valid_and_clean(built: Path) -> None:
    notebook = nbformat.read(built / "notebooks" / f"{NAME}.ipynb", as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3" and "widgets" not in notebook.metadata
    assert notebook.metadata.kvlab.unit == NAME and re.fullmatch(r"[0-9a-f]{12}", notebook.metadata.kvlab.release)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
    graded = {c.metadata.nbgrader.grade_id: c.metadata.nbgrader for c in notebook.cells if "nbgrader" in c.metadata}
    flags = {key: (meta.grade, meta.solution, meta.locked, meta.get("points")) for key, meta in graded.items()}
    assert flags == {
        "answer-running_mean": (False, True, False, None),
        "check-running_mean": (True, False, True, 2),
        "answer-counter": (False, True, False, None),
        "check-counter": (True, False, True, 1),
        "answer-why_mean": (True, True, False, 3),
    }
    assert all(meta.schema_version == 3 for meta in graded.values())


def test_source_notebook_is_what_nbformat_writes(built: Path) -> None:
    path = built / "grading" / "source" / NAME / f"{NAME}.ipynb"
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert nbformat.writes(notebook, version=nbformat.NO_CONVERT).rstrip("\n") == path.read_text("utf-8").rstrip("\n")
    assert [p.name for p in (built / "grading" / "source").rglob("*") if p.is_file()] == [f"{NAME}.ipynb"]


def test_hints_fold_out_one_by_one(built: Path) -> None:
    cells = json.loads((built / "notebooks" / f"{NAME}.ipynb").read_text("utf-8"))["cells"]
    text = next(s for s in ("".join(cell["source"]) for cell in cells) if "Hint 1 for <code>running_mean" in s)
    depth = 0
    depths = {}
    for line in text.split("\n"):
        depth += line.count("<details>") - line.count("</details>")
        for number, words in enumerate(("the mean of the first two", "A running sum", "Divide by"), start=1):
            if words in line:
                depths[number] = depth
    assert depths == {1: 1, 2: 2, 3: 3} and depth == 0


def test_release_id_follows_what_learners_see(built: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    def release_of(edit: Callable[[str], str]) -> str:
        return json.loads(write(course(tmp_path_factory.mktemp("c"), edit)))["metadata"]["kvlab"]["release"]

    here = release_of(lambda text: text)
    assert release_of(replace("np.cumsum(x) /", "np.add.accumulate(x) /")) == here, "only the solution changed"
    assert release_of(replace("The end.", "The End.")) != here
    assert release_of(replace('check="counter" points=1', 'check="counter" points=2')) != here


def test_table_of_exercises(built: Path) -> None:
    table = json.loads((built / "data" / "exercises.json").read_text("utf-8"))
    assert table["running_mean"] == {
        "unit": NAME, "points": 2, "minutes": 5, "difficulty": 1, "closed": ["fractions.Fraction"],
    }  # fmt: skip
    assert list(table) == ["running_mean", "counter"]


def test_adding_a_cell_keeps_the_other_ids(built: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    def ids(data: bytes) -> list[str]:
        return [cell["id"] for cell in json.loads(data)["cells"]]

    before = ids((built / "notebooks" / f"{NAME}.ipynb").read_bytes())
    more = replace("# %% [markdown]\n# The end.", "# %% [markdown]\n# New.\n\n# %% [markdown]\n# The end.")
    after = ids(write(course(tmp_path_factory.mktemp("c"), more)))
    assert [i for i in after if i in before] == before and len(after) == len(before) + 1


# --- leaks -----------------------------------------------------------------------------------------------------------


def leaks(unit: units.Unit, raw: str) -> list[str]:
    """Solution lines (stripped, 12 characters or more) that occur in the raw text of a notebook file. An own reading
    of the unit's text, so that the builder's reading is not trusted."""
    found = []
    for region in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", unit.text, flags=re.S):
        for line in region.split("\n"):
            text = re.sub(r"^#\s?", "", line.strip()).strip()
            if len(text) >= 12 and (json.dumps(text, ensure_ascii=False)[1:-1] in raw or text in raw):
                found.append(text)
    return found


def test_no_solution_in_the_release(built: Path) -> None:
    unit = units.read_unit(built / "grading" / "units" / TINY.name)
    raw = (built / "notebooks" / f"{NAME}.ipynb").read_text("utf-8")
    assert leaks(unit, raw) == []
    source = (built / "grading" / "source" / NAME / f"{NAME}.ipynb").read_text("utf-8")
    assert len(leaks(unit, source)) > 5, "the same test finds the solutions where they are"
    assert "BEGIN SOLUTION" not in raw


def test_no_solution_of_any_unit_in_any_released_notebook() -> None:
    released = {path: path.read_text("utf-8") for path in (REPO / "notebooks").glob("*.ipynb")}
    for path in units.find_units():
        unit = units.read_unit(path)
        for notebook, raw in released.items():
            assert leaks(unit, raw) == [], f"{path.name} in {notebook.name}"


def test_builder_refuses_a_solution_that_is_told_elsewhere(tmp_path: Path) -> None:
    root = course(tmp_path, replace("# The end.", "# Use return np.cumsum(x) / np.arange(1, len(x) + 1) at the end."))
    with pytest.raises(UnitError, match=r"90_tiny\.py:\d+: this line of the solution also stands"):
        write(root)
    assert not (root / "notebooks").exists(), "nothing is written when a unit can't be built"


def test_stub_is_nbgraders(built: Path) -> None:
    code_stub, text_stub = release.stubs()
    cells = json.loads((built / "notebooks" / f"{NAME}.ipynb").read_text("utf-8"))["cells"]
    sources = {"".join(cell["source"]) for cell in cells}
    unit = units.read_unit(built / "grading" / "units" / TINY.name)
    for cell in unit.with_role("exercise"):
        assert stubs.clear(cell.source, code_stub) in sources
    assert any(source.endswith(text_stub) for source in sources)
