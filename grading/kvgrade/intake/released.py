"""The released notebooks that a hand-in may be made from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..course import Course, CourseError
from ..units import ROOT


def released_notebooks(folder: Path | None) -> dict[str, dict[str, Any]]:
    """Released notebooks by unit: the class's own release where there is one, else the checkout's `notebooks/`.

    `folder` is the class's folder as the command line names it. Without a class, as in a plain checkout, the checkout's.
    """
    paths = {path.stem: path for path in sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))}
    try:
        course = Course.find(folder)
    except CourseError:
        if folder is not None:
            raise
        return _load(paths)
    for unit in paths:
        own = course.folder(course.named("release"), ".", unit) / f"{unit}.ipynb"
        if own.is_file():
            paths[unit] = own
    return _load(paths)


def _load(paths: dict[str, Path]) -> dict[str, dict[str, Any]]:
    return {unit: json.loads(path.read_text(encoding="utf-8")) for unit, path in paths.items()}
