"""The cells that were run in this kernel, and which notebook of the course they belong to.

It imports nothing that a notebook needs: it helps to explain errors in a kernel where those packages are missing.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path


def cells() -> list[str]:
    """The text of every cell run in this session, as typed and in order, the running one last; [] outside IPython."""
    if "IPython" not in sys.modules:
        return []
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    history = getattr(getattr(shell, "history_manager", None), "input_hist_raw", None)
    return [str(source) for source in history or [] if source]


def as_python(source: str) -> str:
    """A cell as IPython compiles it, with its magics as calls; the text as it is outside IPython."""
    if "IPython" not in sys.modules:
        return source
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return source
    try:
        return str(shell.transform_cell(source))
    except SyntaxError:
        return source


def notebook(ran: Sequence[str]) -> list[str]:
    """The code cells of the released notebook that these cells are run from; [] when that can't be known.

    A cell that only one notebook has tells it. The start of a notebook is the same in all, and tells nothing; then the
    name of the file counts, where the front end says it (JupyterLab and VS Code do).
    """
    books = _released(_folder())
    owners: dict[str, list[str]] = {}
    for name, sources in books.items():
        for source in {plain(source) for source in sources}:
            owners.setdefault(source, []).append(name)
    found = [owners.get(plain(source), []) for source in ran]
    votes = Counter(names[0] for names in found if len(names) == 1).most_common(2)
    if votes and (len(votes) == 1 or votes[0][1] > votes[1][1]):
        return books[votes[0][0]]
    file = _file_name()
    return next((sources for name, sources in books.items() if name in file), [])


def plain(source: str) -> str:
    """A cell without what says nothing: blank edges and spaces at line ends."""
    return "\n".join(line.rstrip() for line in source.splitlines()).strip()


def _file_name() -> str:
    """The name of the notebook's file, or ""."""
    told = os.environ.get("JPY_SESSION_NAME") or getattr(sys.modules.get("__main__"), "__vsc_ipynb_file__", "")
    return Path(str(told)).name if str(told).endswith(".ipynb") else ""


def _folder() -> Path | None:
    from kvlab.paths import notebooks_dir

    try:
        return notebooks_dir()
    except FileNotFoundError:
        return None


@cache
def _released(folder: Path | None) -> dict[str, list[str]]:
    """The code cells of each released notebook, by its name. A damaged one is left out: it must hide no error."""
    books = {}
    for path in sorted(folder.glob("*.ipynb")) if folder else []:
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["cells"]
            books[path.stem] = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return books
