"""Run a notebook as learners do, and read what stands below its cells."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient


def execute(notebook: Any, folder: Path, strict: bool = False, **parameters: object) -> Any:
    """Run a notebook in a kernel of its own, with these parameters instead of the cell's. Returns it with outputs."""
    lines = ["import os, sys", *(f"{name} = {value!r}" for name, value in {"FAST": True, **parameters}.items())]
    at = next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    notebook.cells.insert(at + 1, nbformat.v4.new_code_cell("\n".join(lines)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        patch.delenv("NBGRADER_EXECUTION", raising=False)
        patch.setenv("KVLAB_STRICT", "1") if strict else patch.delenv("KVLAB_STRICT", raising=False)
        NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def outputs(notebook: Any, kind: str) -> list[Any]:
    return [out for cell in notebook.cells for out in cell.get("outputs", []) if out.output_type == kind]


def shown(notebook: Any) -> str:
    """Everything a learner sees below the cells, as text."""
    parts = [out.text for out in outputs(notebook, "stream")]
    for kind in ("display_data", "execute_result"):
        parts += [out.data.get("text/plain", "") for out in outputs(notebook, kind)]
    return "\n".join(parts)
