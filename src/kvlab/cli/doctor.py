"""`kvlab doctor`: looks at the machine and the installation; one line a finding, and what to do about a bad one."""

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvlab import checksums
from kvlab.cli.execute import no_address_parser
from kvlab.cli.files import full_path
from kvlab.cli.workspace import default_folder
from kvlab.paths import constraints_file, data_dir, repo_root

if TYPE_CHECKING:
    from packaging.requirements import Requirement

GIB = 2**30
OK, WARN, FAIL = "ok", "warn", "FAIL"


@dataclass(frozen=True)
class Finding:
    """One line of the report; `advice` says what to do and belongs to every `FAIL`."""

    status: str
    subject: str
    text: str
    advice: str = ""

    def __str__(self) -> str:
        line = f"{self.status:<4}  {self.subject:<10}  {self.text}"
        return f"{line}\n{'':18}-> {self.advice}" if self.advice else line


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("doctor", help="check this machine and the installation")
    parser.add_argument(
        "--dir", type=Path, default=None, help="your folder (default: this one if it is such a folder, else work)"
    )
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command; 1 when anything failed."""
    return 1 if _print_all(options.dir) else 0


def show() -> None:
    """What `kvlab doctor` prints, for a notebook."""
    _print_all(None)


def _print_all(work: Path | None) -> int:
    """Print all findings and a closing line; returns how many failed."""
    failed = 0
    for finding in report(full_path(work or default_folder())):
        print(finding, flush=True)
        failed += finding.status == FAIL
    checks = "1 check" if failed == 1 else f"{failed} checks"
    print(f"{checks} failed; see the arrows above." if failed else "Everything that the course needs is here.")
    return failed


def report(work: Path) -> Iterator[Finding]:
    """All findings, in order."""
    yield check_python(sys.version_info[:3])
    if "google.colab" in sys.modules:
        yield Finding(OK, "packages", "Colab's own; the first cell of a notebook adds what is missing")
    else:
        yield from check_packages()
        yield from check_nbgrader()
    yield from check_device()
    yield check_memory()
    yield from check_work(work)
    yield from check_data()


def install_hint() -> str:
    """How to repair the installation, for a checkout and for a plain install."""
    if repo_root() is None:
        return "install the course's package again, with -c constraints.txt"
    return "run `make lab` (or: python -m pip install -c constraints.txt -e .)"


def check_python(version: tuple[int, ...]) -> Finding:
    """Python itself; 3.11 is the least."""
    text = f"{'.'.join(map(str, version))} at {sys.executable} ({platform.system()} {platform.machine()})"
    if version < (3, 11):
        return Finding(FAIL, "python", text, "install Python 3.11 or newer, then delete .venv and run `make lab`")
    return Finding(OK, "python", text)


def normal_name(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(path: Path) -> dict[str, str]:
    """`name==version` lines as a table; comments and environment markers are dropped."""
    pins = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.split("#")[0].split(";")[0].strip()
        if "==" in line:
            name, version = line.split("==", 1)
            pins[normal_name(name.strip())] = version.strip()
    return pins


def requirements() -> "list[Requirement]":
    """What the package itself needs, without extras. Raises PackageNotFoundError when it is not installed."""
    from packaging.requirements import Requirement

    parsed = [Requirement(text) for text in metadata.requires("kvlab") or []]
    return [item for item in parsed if item.marker is None or item.marker.evaluate({"extra": ""})]


def check_packages() -> Iterator[Finding]:
    """Installed versions against what the package needs and against the pins."""
    try:
        from packaging.version import Version

        needed = requirements()
    except ImportError as error:
        # PackageNotFoundError, for kvlab itself, is an ImportError too.
        yield Finding(FAIL, "packages", f"not installed in this Python: {error.name}", install_hint())
        return
    try:
        pins = read_pins(constraints_file())
    except (OSError, ValueError) as error:
        yield Finding(WARN, "packages", f"no pins to compare with: {error}")
        pins = {}
    installed = {normal_name(item.metadata["Name"] or ""): item.version for item in metadata.distributions()}
    bad = False
    for need in needed:
        found = installed.get(normal_name(need.name))
        if found is None:
            bad = True
            yield Finding(FAIL, "packages", f"{need.name} is missing", install_hint())
        elif not need.specifier.contains(found, prereleases=True):
            bad = True
            yield Finding(FAIL, "packages", f"{need.name} {found} does not fit {need.specifier}", install_hint())
    different = [
        f"{name} {installed[name]} (tested with {pin})"
        for name, pin in sorted(pins.items())
        if name in installed and Version(installed[name]).public != Version(pin).public
    ]
    if different:
        names = ", ".join(different[:5]) + (f" and {len(different) - 5} more" if len(different) > 5 else "")
        yield Finding(
            WARN, "packages", f"not the tested versions: {names}", f"if something misbehaves: {install_hint()}"
        )
    if not bad:
        same = sum(name in installed for name in pins) - len(different)
        yield Finding(OK, "packages", f"all {len(needed)} needed ones are here; {same} packages are as pinned")


def check_nbgrader() -> Iterator[Finding]:
    """nbgrader, which learners need to validate and instructors to grade."""
    try:
        with no_address_parser():
            import nbgrader
    except ImportError as error:
        yield Finding(FAIL, "nbgrader", f"cannot be imported: {error}", install_hint())
        return
    yield Finding(OK, "nbgrader", f"{nbgrader.__version__}")


def check_device() -> Iterator[Finding]:
    """What torch computes on."""
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Finding(FAIL, "device", f"torch cannot be imported: {error}", install_hint())
        return
    text = f"torch {torch.__version__}, CPU with {torch.get_num_threads()} of {os.cpu_count()} threads"
    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory
        text += f"; GPU {torch.cuda.get_device_name(0)} with {memory / GIB:.0f} GiB"
    elif torch.backends.mps.is_available():
        text += "; Apple GPU (mps)"
    else:
        text += "; no GPU (the course needs none)"
    yield Finding(OK, "device", text)


def check_memory() -> Finding:
    """Memory that a notebook can still get; one needs up to 2 GB."""
    try:
        import psutil
    except ImportError as error:
        return Finding(FAIL, "memory", f"psutil cannot be imported: {error}", install_hint())
    memory = psutil.virtual_memory()
    text = f"{memory.available / GIB:.1f} GiB free of {memory.total / GIB:.1f} GiB"
    if memory.available < 2.5 * GIB:
        return Finding(WARN, "memory", text, "close other programs: a notebook needs up to 2 GB")
    return Finding(OK, "memory", text)


def check_work(work: Path) -> Iterator[Finding]:
    """The learner's folder: may it be written to, and is there room?"""
    existing = work
    try:
        existing = next(path for path in (work, *work.parents) if path.exists())
        with tempfile.NamedTemporaryFile(dir=existing, prefix=".kvlab-doctor-"):
            pass
        free = shutil.disk_usage(existing).free
    except OSError as error:
        advice = "change the rights of that folder, or choose another one: `kvlab lab --dir FOLDER`"
        yield Finding(FAIL, "work", f"cannot write in {existing}: {error.strerror or error}", advice)
        return
    yield Finding(OK, "work", f"{work} can be written to" if existing == work else f"{work} can be made")
    if free < GIB:
        yield Finding(WARN, "disk", f"{free / GIB:.1f} GiB free", "make room: results and caches need up to 1 GiB")
    else:
        yield Finding(OK, "disk", f"{free / GIB:.1f} GiB free")


def check_data() -> Iterator[Finding]:
    """The course's data files against their recorded checksums."""
    again = "bring the files back: `git checkout -- data` in a checkout, else install again"
    try:
        folder = data_dir()
        problems = checksums.verify(folder)
    except (OSError, ValueError) as error:
        yield Finding(FAIL, "data", str(error), again)
        return
    for problem in problems:
        # An extra file does no harm; a missing or changed one makes results wrong.
        if problem.endswith("is not recorded."):
            yield Finding(WARN, "data", problem)
        else:
            yield Finding(FAIL, "data", problem, again)
    if not problems:
        yield Finding(OK, "data", f"all files in {folder} are as recorded")
