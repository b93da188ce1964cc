"""Turn source notebooks into released ones with nbgrader's own generate_assignment, in this process.

Importing nbgrader takes seconds, so it is imported only when a unit has changed. The gradebook step (SaveCells) is left
out, as `nbgrader generate_assignment --no-db` does: it writes to a database and changes no notebook.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from pathlib import Path
from typing import Any

from .units import ROOT

CONFIG = ROOT / "grading" / "nbgrader_config.py"
_lock = threading.Lock()  # nbgrader changes the working directory while it converts


def load_config(path: Path = CONFIG) -> Any:
    """nbgrader_config.py as a traitlets Config."""
    from traitlets.config import PyFileConfigLoader

    return PyFileConfigLoader(path.name, path=str(path.parent)).load_config()


def stubs(path: Path = CONFIG) -> tuple[str, str]:
    """(code stub, text stub) that replace solutions, as nbgrader_config.py sets them."""
    settings = load_config(path).ClearSolutions
    return settings.code_stub["python"], settings.text_stub


def generate(sources: dict[str, str], config: Path = CONFIG) -> dict[str, bytes]:
    """Released notebooks by unit name, from source notebooks by unit name. Raises RuntimeError with nbgrader's log."""
    from nbgrader.converters import GenerateAssignment
    from nbgrader.converters.base import NbGraderException
    from nbgrader.coursedir import CourseDirectory
    from nbgrader.preprocessors import SaveCells

    log = logging.getLogger("kvgrade.nbgrader")
    log.propagate = False
    log.setLevel(logging.WARNING)
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    released: dict[str, bytes] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="kvgrade-") as folder, _lock:
            settings = load_config(config)
            settings.CourseDirectory.root = folder
            for name, text in sources.items():
                path = Path(folder, "source", name, f"{name}.ipynb")
                path.parent.mkdir(parents=True)
                path.write_text(text, encoding="utf-8", newline="\n")
                course = CourseDirectory(config=settings)
                course.assignment_id = name
                steps = [step for step in GenerateAssignment(coursedir=course).preprocessors if step is not SaveCells]
                converter = GenerateAssignment(
                    coursedir=course, config=settings, no_database=True, preprocessors=steps, log=log
                )
                try:
                    converter.start()
                except NbGraderException as error:
                    raise RuntimeError(f"nbgrader could not release {name}: {error}\n" + "\n".join(records)) from None
                released[name] = Path(folder, "release", name, f"{name}.ipynb").read_bytes()
    finally:
        log.removeHandler(handler)
    return released
