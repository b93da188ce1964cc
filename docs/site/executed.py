"""The released notebooks, executed: a result is kept in build/executed/ until something that it depends on changes.

They are run by the code behind `kvlab run`. The name of a kept file holds a checksum of the notebook, the package, the
data, the parameters and the libraries that the numbers come from.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import kvlab
from kvlab import checksums
from kvlab.cli.parameters import Value, assign, defaults
from kvlab.cli.run import run_notebook
from kvlab.paths import build_dir, data_dir

TIMEOUT = 600.0  # seconds for one notebook
_LIBRARIES = ("torch", "numpy", "matplotlib", "papermill", "ipykernel")


def execute(notebooks: dict[str, Path], fast: bool, say: Callable[[str], None] = print) -> dict[str, Path]:
    """Unit to executed copy, in the given order. Raises RuntimeError with the first error of a notebook that fails."""
    folder = build_dir() / "executed"
    folder.mkdir(parents=True, exist_ok=True)
    common = _common()
    found = {}
    for name, source in notebooks.items():
        parameters = _parameters(source, fast)
        kept = folder / f"{name}-{_key(source, parameters, common)}.ipynb"
        if not kept.exists():
            outcome = run_notebook(source, kept, parameters, TIMEOUT)
            if not outcome.ok:
                kept.unlink(missing_ok=True)  # what was executed up to the error is no result
                raise RuntimeError(f"{name}: {outcome.error}")
            say(f"{name}: executed in {outcome.seconds:.0f} s")
        found[name] = kept
    _remove_old(folder, found)
    return found


def _parameters(source: Path, fast: bool) -> dict[str, Value]:
    """FAST=True for a notebook that has this parameter; otherwise a notebook runs as it stands."""
    if not fast or "FAST" not in defaults(source):
        return {}
    return assign({source.stem: source}, [("FAST", "true")])[source.stem]


def _common() -> bytes:
    """Digest of all that every notebook depends on."""
    digest = hashlib.sha256(platform.python_version().encode())
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    package = Path(kvlab.__file__).parent
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)} {checksums.sha256(path)}\n".encode())
    digest.update(repr(checksums.compute(data_dir())).encode())
    return digest.digest()


def _key(source: Path, parameters: dict[str, Value], common: bytes) -> str:
    text = f"{checksums.sha256(source)} {sorted(parameters.items())}".encode()
    mode = "fast" if parameters else "full"
    return f"{mode}-{hashlib.sha256(common + text).hexdigest()[:16]}"


def _remove_old(folder: Path, found: dict[str, Path]) -> None:
    """Of each unit only the newest result is kept, one with FAST and one without."""
    for name, kept in found.items():
        mode = kept.stem.removeprefix(f"{name}-").partition("-")[0]
        for path in folder.glob(f"{name}-{mode}-*.ipynb"):
            if path != kept:
                path.unlink(missing_ok=True)
