"""Where the course's files are: in a checkout, or inside the installed package.

In a checkout (also an editable install) `data/` and `notebooks/` lie next to `pyproject.toml`. In a plain install they
lie inside the package. Everything written at run time goes to `cache_dir()` or to the learner's `work_dir()`.
"""

import os
import re
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def repo_root() -> Path | None:
    """The checkout that this package runs from, or None when it is installed without one."""
    root = _PACKAGE.parent.parent
    pyproject = root / "pyproject.toml"
    if _PACKAGE.parent.name != "src" or not pyproject.is_file():
        return None
    return root if re.search(r'^name = "kvlab"$', pyproject.read_text(encoding="utf-8"), re.M) else None


def _course_path(name: str) -> Path:
    root = repo_root()
    path = root / name if root else _PACKAGE / name
    if not path.exists():
        where = "the checkout is incomplete (git checkout brings files back)" if root else "install the package again"
        raise FileNotFoundError(f"The course's {name} is not at {path}: {where}.")
    return path


def data_dir() -> Path:
    """The folder of models, tables, claims and quizzes. Raises FileNotFoundError when it is missing."""
    return _course_path("data")


def notebooks_dir() -> Path:
    """The folder of the released notebooks; `KVLAB_NOTEBOOKS` names another one (a class's own release, a test's)."""
    override = os.environ.get("KVLAB_NOTEBOOKS")
    if override:
        path = Path(override).expanduser().resolve()
        if not path.is_dir():
            raise FileNotFoundError(f"KVLAB_NOTEBOOKS names {path}, which is not a folder.")
        return path
    return _course_path("notebooks")


def constraints_file() -> Path:
    """The list of pinned versions, one `name==version` a line."""
    return _course_path("constraints.txt")


def work_dir() -> Path:
    """The learner's folder: `work/` in the checkout, else `work/` in the current folder. It need not exist."""
    return (repo_root() or Path.cwd()) / "work"


def build_dir() -> Path:
    """Where `kvlab run` writes: `build/` in the checkout, else `build/` in the current folder. It need not exist."""
    return (repo_root() or Path.cwd()) / "build"


def cache_dir() -> Path:
    """The user's cache folder for this course, created if missing; `KVLAB_CACHE` names another one."""
    override = os.environ.get("KVLAB_CACHE")
    if override:
        try:
            path = Path(override).expanduser()
        except RuntimeError as error:  # ~name of nobody
            raise FileNotFoundError(f"KVLAB_CACHE names {override!r:.80}, whose user is not known here.") from error
    elif sys.platform == "win32":
        path = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "kvlab"
    elif sys.platform == "darwin":
        path = Path.home() / "Library" / "Caches" / "kvlab"
    else:
        path = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvlab"
    path.mkdir(parents=True, exist_ok=True)
    return path
