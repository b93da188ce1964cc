"""A stand-in for a Google Colab machine: a bare environment, `google.colab` already imported, no course, no network.

Its packages are links to those that are installed here, without the ones that Colab lacks. `pip` finds only what lies
in a folder of wheels; `git` gets this checkout, as it is now, where the course's address is asked for.
"""

import json
import os
import shutil
import subprocess
import sysconfig
import venv
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from helpers import ROOT
from kvgrade.colab import repository

ABSENT = ("kvlab", "jupyterquiz", "anthropic", "nbgrader")
"""Packages of this machine that Colab's own list does not have (docs/colab.md)."""


@dataclass(frozen=True)
class Machine:
    """The interpreter, the learner's folder, and the environment variables of everything that runs there."""

    python: Path
    content: Path
    env: dict[str, str]

    def run(self, code: str, **extra: str) -> subprocess.CompletedProcess[str]:
        """Run code as a cell would be: in the learner's folder."""
        return self._python("-c", code, **extra)

    def _python(self, *arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.python), *arguments],
            cwd=self.content,
            env=self.env | extra,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    def freeze(self) -> dict[str, str]:
        """Name and version of every package that pip sees."""
        done = self._python("-m", "pip", "list", "--format=json", "--disable-pip-version-check")
        assert done.returncode == 0, done.stderr
        return {item["name"].lower(): item["version"] for item in json.loads(done.stdout)}


def machine(folder: Path, served: str, wheels: Path, first: Path | None = None) -> Machine:
    """A new machine in `folder`. `served`: where git finds the course. `first`: packages that come before all others."""
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    preinstalled = folder / "preinstalled"
    preinstalled.mkdir()
    for name in _entries():
        (preinstalled / name).symlink_to(Path(sysconfig.get_path("purelib")) / name)
    colab = folder / "stand_in" / "google" / "colab"
    colab.mkdir(parents=True)
    (colab / "__init__.py").touch()
    lines = [*([str(first)] if first else []), str(colab.parents[1]), str(preinstalled), "import google.colab"]
    (site / "colab.pth").write_text("\n".join(lines) + "\n")
    (folder / "content").mkdir()
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "OMP_NUM_THREADS") if name in os.environ}
    settings = {
        "HOME": str(folder),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{served}.insteadOf",
        "GIT_CONFIG_VALUE_0": repository(ROOT),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
        "MPLCONFIGDIR": str(folder / "matplotlib"),
    }
    return Machine(folder / "venv" / "bin" / "python", folder / "content", keep | settings)


def _entries() -> list[str]:
    """What lies in this environment's folder of packages, without the absent ones."""
    absent = set()
    for name in ABSENT:
        try:
            absent |= {file.parts[0] for file in metadata.files(name) or []}
        except metadata.PackageNotFoundError:
            continue
    names = (path.name for path in Path(sysconfig.get_path("purelib")).iterdir())
    return sorted(name for name in names if name not in absent and not name.endswith(".pth"))


def serve(folder: Path) -> str:
    """This checkout, uncommitted changes too, as a git repository with one commit. Returns its address."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A", "-f"], [*author, "commit", "-q", "-m", "as it is now"]):
        subprocess.run(["git", *command], cwd=folder, check=True, capture_output=True)
    return folder.as_uri()


def wheel(name: str, folder: Path) -> Path:
    """A wheel of an installed package, made from its files."""
    found = metadata.distribution(name)
    root = Path(str(found.locate_file("")))
    path = folder / f"{found.metadata['Name'].replace('-', '_')}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in found.files or []:
            if file.parts[0] != ".." and file.suffix != ".pyc" and file.name not in ("INSTALLER", "REQUESTED"):
                archive.write(root / file, str(file))
    return path


def made_up_wheel(name: str, version: str, folder: Path, *requires: str) -> Path:
    """A wheel with no code, as an index might hold it."""
    info = f"{name}-{version}.dist-info"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {r}" for r in requires),
    ]
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path
