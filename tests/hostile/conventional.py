"""The conventional way, for comparison: unit 01 as a plain nbgrader course, graded without our configuration.

The check cells are what a careful instructor would write into the notebook: asserts with known right values that the
learner sees, and more between `### BEGIN HIDDEN TESTS` and `### END HIDDEN TESTS`. Grade ids are those of our release,
so that the same tricks apply. Demonstrations are left out: they would only cost time.

Nothing is confined here. Only tricks that are not `harmful` may be handed in, and `submit` refuses the others.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from hostile.model import EXERCISES, MAIN, UNIT, Material, Notebook, Trick, code_cell, dump, place
from kvgrade.notebook import source_notebook
from kvgrade.units import read_unit

SETTINGS = """\
c = get_config()
c.CourseDirectory.course_id = "conventional"
c.CourseDirectory.db_url = "sqlite:///gradebook.db"
c.ExecutePreprocessor.timeout = {timeout}
"""

VISIBLE = {
    "positions_processed": """
assert positions_processed(1, 200, False) == 20100
assert positions_processed(1, 200, True) == 200
assert positions_processed(5, 1, True) == 5
assert positions_processed(7, 0, False) == 0
""",
    "KVCache": """
rng = np.random.default_rng(1)
rows = [rng.normal(size=(2, n, 4)) for n in (3, 1, 2)]
kv = KVCache(2, 2, 6, 4)
assert kv.length(0) == 0 and kv.length(1) == 0
kv.append(0, rows[0], -rows[0])
first, _ = kv.view(0)
kv.append(0, rows[1], -rows[1])
k, v = kv.view(0)
assert kv.length(0) == 4 and kv.length(1) == 0
np.testing.assert_allclose(k, np.concatenate(rows[:2], axis=1), rtol=1e-3, atol=1e-4)
assert np.shares_memory(first, k)
""",
    "cached_attention": """
rng = np.random.default_rng(2)
q, k, v = (rng.normal(size=(3, 6, 8)) for _ in range(3))
scores = np.einsum("hid,hjd->hij", q, k) / math.sqrt(8)
scores[:, np.triu(np.ones((6, 6), dtype=bool), 1)] = -np.inf
weights = np.exp(scores)
expected = weights @ v / weights.sum(axis=2, keepdims=True)
np.testing.assert_allclose(cached_attention(q, k, v), expected, rtol=1e-3, atol=1e-4)
np.testing.assert_allclose(cached_attention(q[:, -1:], k, v), expected[:, -1:], rtol=1e-3, atol=1e-4)
""",
    "kv_cache_bytes": """
assert kv_cache_bytes(3, 2, 4, 5) == 480
assert kv_cache_bytes(32, 8, 128, 131072) == 17179869184
assert kv_cache_bytes(4, 4, 4, 0) == 0
""",
}

HIDDEN = {
    "positions_processed": """
assert positions_processed(5, 3, False) == 18
assert positions_processed(5, 3, True) == 7
assert positions_processed(17, 40, False) == 1460
assert positions_processed(17, 40, True) == 56
for arguments in ((0, 3, True), (3, -1, False)):
    try:
        positions_processed(*arguments)
    except ValueError:
        pass
    else:
        raise AssertionError("bad arguments must raise ValueError")
""",
    "KVCache": """
rng = np.random.default_rng(11)
rows = [rng.normal(size=(3, n, 5)) for n in (2, 4, 1)]
kv = KVCache(3, 3, 7, 5)
for row in rows:
    kv.append(0, row, -row)
    kv.append(2, row[:, :1], row[:, :1])
np.testing.assert_allclose(kv.view(0)[0], np.concatenate(rows, axis=1), rtol=1e-3, atol=1e-4)
np.testing.assert_allclose(kv.view(0)[1], -np.concatenate(rows, axis=1), rtol=1e-3, atol=1e-4)
for bad in (lambda: kv.append(0, rows[2], rows[2]), lambda: kv.view(-1), lambda: kv.truncate(9), lambda: kv.truncate(-1)):
    try:
        bad()
    except ValueError:
        pass
    else:
        raise AssertionError("this must raise ValueError")
kv.truncate(4)
assert [kv.length(layer) for layer in range(3)] == [4, 0, 3]
kv.append(0, rows[2] + 9, rows[2])
np.testing.assert_allclose(kv.view(0)[0][:, 4:], rows[2] + 9, rtol=1e-3, atol=1e-4)
""",
    "cached_attention": """
rng = np.random.default_rng(12)
q, k, v = rng.normal(size=(2, 3, 16)), rng.normal(size=(2, 9, 16)), rng.normal(size=(2, 9, 16))
scores = np.einsum("hid,hjd->hij", q, k) / math.sqrt(16)
scores[:, np.triu(np.ones((3, 9), dtype=bool), 7)] = -np.inf
weights = np.exp(scores)
expected = weights @ v / weights.sum(axis=2, keepdims=True)
np.testing.assert_allclose(cached_attention(q, k, v), expected, rtol=1e-3, atol=1e-4)
big = cached_attention(q[:, -1:] * 3000, k, v)[:, 0]
best = np.einsum("hd,hjd->hj", q[:, -1], k).argmax(axis=1)
np.testing.assert_allclose(big, v[np.arange(2), best], rtol=1e-3, atol=1e-4)
before = q.copy()
cached_attention(q, k, v)
np.testing.assert_array_equal(q, before)
try:
    cached_attention(q, k[:, :2], v[:, :2])
except ValueError:
    pass
else:
    raise AssertionError("more queries than keys must raise ValueError")
""",
    "kv_cache_bytes": """
assert kv_cache_bytes(32, 8, 128, 4096, batch=3) == 1610612736
assert kv_cache_bytes(2, 3, 5, 7, 11, 13) == 60060
assert abs(kv_cache_bytes(1, 1, 1, 3, 1, 0.25) - 1.5) < 1e-9
for arguments in ((4, 4, 4, -1), (-4, -4, 4, 1)):
    try:
        kv_cache_bytes(*arguments)
    except ValueError:
        pass
    else:
        raise AssertionError("negative sizes must raise ValueError")
""",
}


@dataclass(frozen=True)
class Outcome:
    """Points by student and exercise; students without a grade, and how nbgrader's run ended."""

    marks: dict[str, dict[str, float]]
    not_graded: list[str]
    exit_code: int
    log: str


@dataclass
class Course:
    """A plain nbgrader course in a folder. `repository` is the course's own checkout, whose unit 01 is used."""

    folder: Path
    repository: Path
    timeout: int = 10
    with_torch: bool = True

    def build(self) -> None:
        """Write the source notebook and the settings, and release the assignment."""
        source = self.folder / "source" / UNIT / MAIN
        source.parent.mkdir(parents=True)
        source.write_bytes(dump(conventional_source(self.repository, self.with_torch)))
        (self.folder / "nbgrader_config.py").write_text(SETTINGS.format(timeout=self.timeout), encoding="utf-8")
        (self.folder / "home").mkdir()
        done = self.nbgrader("generate_assignment", UNIT, "--create")
        if done.returncode:
            raise RuntimeError(f"nbgrader could not release the conventional course:\n{done.stderr[-4000:]}")

    def material(self, own: Material) -> Material:
        """The same answers, on this course's released notebook."""
        notebook = json.loads((self.folder / "release" / UNIT / MAIN).read_text(encoding="utf-8"))
        return Material(notebook, own.right, own.wrong)

    def submit(self, trick: Trick, material: Material, student: str | None = None) -> None:
        """Hand a trick in, under its own name or that of a student. Raises ValueError for a harmful one."""
        if trick.harmful:
            raise ValueError(f"{trick.name} is harmful: nothing confines it here, so it is not handed in")
        place(trick.make(material), self.folder / "submitted" / (student or trick.name) / UNIT)

    def autograde(self, *students: str) -> Outcome:
        """Run nbgrader over the class, or over these students one by one; gives all marks that are there afterwards."""
        runs = [["--student", student] for student in students] or [[]]
        done = [self.nbgrader("autograde", UNIT, "--create", *options) for options in runs]
        marks = self._marks()
        everybody = sorted(path.name for path in (self.folder / "submitted").iterdir())
        missing = [name for name in everybody if name not in marks]
        return Outcome(marks, missing, max(run.returncode for run in done), "\n".join(run.stderr for run in done))

    def nbgrader(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        home = self.folder / "home"
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "OMP_NUM_THREADS") if name in os.environ}
        # nbgrader calls alembic by name, as in an activated environment
        keep["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), keep.get("PATH", os.defpath)])
        environment = {**keep, "HOME": str(home), "PYTHONPATH": str(self.repository / "src")}
        return subprocess.run(
            [sys.executable, "-m", "nbgrader", *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=3600,
            check=False,
        )

    def _marks(self) -> dict[str, dict[str, float]]:
        """What the gradebook says, as an export would add it up: a manual score goes before an automatic one."""
        from nbgrader.api import Gradebook

        graded: dict[str, dict[str, float]] = {}
        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as book:
            for submission in book.assignment_submissions(UNIT):
                grades = [
                    g for notebook in submission.notebooks for g in notebook.grades if g.name.startswith("check-")
                ]
                # nbgrader makes the rows before it runs anything; without an automatic score nobody was graded.
                if any(grade.auto_score is not None or grade.manual_score is not None for grade in grades):
                    graded[submission.student.id] = {
                        grade.name.removeprefix("check-"): _paid(grade) for grade in grades
                    }
        return graded


def _paid(grade: object) -> float:
    scores = {name: getattr(grade, name) for name in ("manual_score", "auto_score", "extra_credit")}
    score = scores["auto_score"] if scores["manual_score"] is None else scores["manual_score"]
    return float(score or 0) + float(scores["extra_credit"] or 0)


def conventional_source(repository: Path, with_torch: bool = True) -> Notebook:
    """nbgrader's source notebook: our solutions and ids, asserts in the check cells, no demonstrations."""
    unit = read_unit(repository / "grading" / "units" / f"{UNIT}.py")
    notebook = source_notebook(unit, "", "")
    cells = []
    for cell in notebook["cells"]:
        role = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if role.startswith("check-"):
            exercise = role.removeprefix("check-")
            hidden = f"### BEGIN HIDDEN TESTS\n{HIDDEN[exercise].strip()}\n### END HIDDEN TESTS"
            cell["source"] = f"{VISIBLE[exercise].strip()}\n{hidden}"
        elif cell["cell_type"] == "code" and not role:
            continue
        cells.append(cell)
    libraries = "import math\n\nimport numpy as np" + ("\nimport torch" if with_torch else "")
    imports = code_cell(libraries, tags=[]) | {"id": "imports"}
    notebook["cells"] = [cells[0], imports, *cells[1:]]
    if not all(any(f"check-{e}" in str(c["metadata"]) for c in cells) for e in EXERCISES):
        raise RuntimeError("a check cell of unit 01 is missing")
    return notebook
