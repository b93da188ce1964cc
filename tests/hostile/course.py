"""Our own course in a folder: nbgrader with our configuration, as an instructor has it, and what a run left behind."""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostile.model import UNIT
from kvgrade import build
from kvgrade.units import ROOT, find_units


@dataclass
class Course:
    """A course folder with a released unit 01."""

    folder: Path

    def build(self) -> None:
        """Write the source notebook and release it with nbgrader's own command."""
        source = self.folder / "source" / UNIT / f"{UNIT}.ipynb"
        source.parent.mkdir(parents=True)
        source.write_text(build.build(find_units([UNIT]))[0].source, encoding="utf-8", newline="\n")
        shutil.copy(ROOT / "grading" / "nbgrader_config.py", self.folder)
        (self.folder / "home").mkdir()
        done = self.nbgrader("generate_assignment", UNIT, "--create")
        if done.returncode:
            raise RuntimeError(f"nbgrader could not release the unit:\n{done.stderr[-4000:]}")

    def submitted(self, student: str) -> Path:
        return self.folder / "submitted" / student / UNIT

    def nbgrader(self, *arguments: str, timeout: float = 3600) -> subprocess.CompletedProcess[str]:
        """Run nbgrader's command in the course folder, with a home of its own."""
        return self._run("nbgrader", arguments, timeout)

    def kvgrade(self, *arguments: str, timeout: float = 3600) -> subprocess.CompletedProcess[str]:
        """Run our command in the course folder, with a home of its own."""
        return self._run("kvgrade", arguments, timeout)

    def _run(self, module: str, arguments: Sequence[str], timeout: float) -> subprocess.CompletedProcess[str]:
        keep = {name: os.environ[name] for name in ("PATH", "LANG", "OMP_NUM_THREADS") if name in os.environ}
        # nbgrader calls alembic by name, as in an activated environment
        keep["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), keep.get("PATH", os.defpath)])
        path = os.pathsep.join(str(ROOT / name) for name in ("grading", "src"))
        environment = {**keep, "HOME": str(self.folder / "home"), "PYTHONPATH": path}
        return subprocess.run(
            [sys.executable, "-W", "ignore", "-m", module, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )

    def marks(self) -> dict[str, dict[str, float]]:
        """Automatic points by student and exercise, of those that nbgrader graded."""
        from nbgrader.api import Gradebook

        found: dict[str, dict[str, float]] = {}
        with Gradebook(f"sqlite:///{self.folder / 'gradebook.db'}") as book:
            for submission in book.assignment_submissions(UNIT):
                for notebook in submission.notebooks:
                    for grade in notebook.grades:
                        if grade.name.startswith("check-") and grade.auto_score is not None:
                            name = grade.name.removeprefix("check-")
                            found.setdefault(submission.student.id, {})[name] = grade.auto_score
        return found

    def nbgraders_page(self, student: str) -> str:
        """What `nbgrader generate_feedback` writes for a student."""
        done = self.nbgrader("generate_feedback", UNIT)
        assert done.returncode == 0, done.stderr
        return (self.folder / "feedback" / student / UNIT / f"{UNIT}.html").read_text(encoding="utf-8")

    def nbgraders_scores(self) -> dict[str, float]:
        """What `nbgrader export` says, by student."""
        done = self.nbgrader("export", "--to", "grades.csv")
        assert done.returncode == 0, done.stderr
        with (self.folder / "grades.csv").open(encoding="utf-8", newline="") as file:
            return {row["student_id"]: float(row["score"]) for row in csv.DictReader(file)}

    def feedback(self, student: str) -> str:
        """What the check cells of a graded hand-in say."""
        import nbformat

        path = self.folder / "autograded" / student / UNIT / f"{UNIT}.ipynb"
        cells = nbformat.read(path, as_version=4).cells
        return "\n".join(o.text for cell in cells for o in cell.get("outputs", []) if o.output_type == "stream")


def checksums(*roots: Path, leave_out: tuple[str, ...] = ("__pycache__",)) -> dict[str, str]:
    """The content of every file below some folders, and where links point, to see what a run changed."""
    found = {}
    for root in roots:
        for where, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name not in leave_out]
            for name in files:
                path = Path(where, name)
                if path.is_symlink():
                    found[str(path)] = f"-> {os.readlink(path)}"
                elif path.is_file():
                    found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found
