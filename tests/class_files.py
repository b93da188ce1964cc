"""Hand-ins of units 01 and 03, and zips and folders of them as learning platforms make them."""

import copy
import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

from helpers import ROOT

UNIT, OTHER = "01_kv_cache", "03_memory"
RELEASED = {unit: json.loads((ROOT / "notebooks" / f"{unit}.ipynb").read_text("utf-8")) for unit in (UNIT, OTHER)}
When = tuple[int, int, int, int, int, int]
MONDAY: When = (2026, 3, 2, 10, 0, 0)


def notebook(answer: str = "mine", unit: str = UNIT) -> dict[str, Any]:
    """A unit's notebook with one answer; untouched when it is empty."""
    book = copy.deepcopy(RELEASED[unit])
    cells = [cell for cell in book["cells"] if cell["metadata"].get("nbgrader", {}).get("solution")]
    if answer:
        name = cells[0]["metadata"]["nbgrader"]["grade_id"].removeprefix("answer-")
        cells[0]["source"] = f"# exercise: {name}\ndef {name}(*args):\n    return {answer!r}\n"
    return book


def hand_in(answer: str = "mine", unit: str = UNIT) -> bytes:
    return json.dumps(notebook(answer, unit)).encode()


def zipped(files: dict[str, bytes], when: dict[str, When] | None = None) -> bytes:
    """A zip. Files are an hour apart, or have the times in `when`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for hour, (name, data) in enumerate(files.items()):
            moment = (when or {}).get(name) or (2026, 3, 2 + hour // 24, hour % 24, 0, 0)
            archive.writestr(zipfile.ZipInfo(name, moment), data, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def lay(root: Path, files: dict[str, bytes]) -> Path:
    """Files in a folder."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def course(root: Path) -> Path:
    """An empty class."""
    root.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "grading" / "nbgrader_config.py", root)
    return root


def standing(root: Path) -> dict[str, str]:
    """{student: first answer} of unit 01 in a class's submitted/; "" for an untouched one."""
    from kvgrade import handin

    found = {}
    for path in sorted((root / "submitted").glob(f"*/{UNIT}/{UNIT}.ipynb")):
        answers = handin.collect(path.read_bytes(), RELEASED[UNIT]).answers
        found[path.parts[-3]] = next((text.split("'")[1] for text in answers.values()), "")
    return found
