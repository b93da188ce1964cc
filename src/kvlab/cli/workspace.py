"""The learner's folder: copies of the released notebooks, and a record of what was copied.

The record (`.kvlab/manifest.json`) holds, for each notebook, the SHA-256 of the release that was copied. A notebook
with that hash is unchanged and may be replaced by a newer release; any other one is the learner's and is left alone.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from kvlab.cli import units
from kvlab.cli.errors import CommandError
from kvlab.cli.files import digest, parse_notebook, read_release, remove_leftovers, write_atomic
from kvlab.paths import work_dir

PRIVATE = ".kvlab"


def default_folder() -> Path:
    """The folder that a command means when none is named: the current one when `kvlab lab` made it, else `work/`."""
    here = Path.cwd()
    return here if (here / PRIVATE / "manifest.json").is_file() else work_dir()


@dataclass
class Manifest:
    """What was copied: notebook file name to the SHA-256 of its release at that time."""

    path: Path
    copied: dict[str, str] = field(default_factory=dict)

    def save(self) -> None:
        """Write the record in one step."""
        text = json.dumps({"format": 1, "copied": dict(sorted(self.copied.items()))}, indent=1)
        write_atomic(self.path, (text + "\n").encode())


def load_manifest(work: Path) -> tuple[Manifest, str | None]:
    """The record of a folder, and a sentence when it was damaged and had to be set aside.

    Without a record every notebook that differs from the release counts as the learner's: nothing is overwritten.
    Raises CommandError when there is one that cannot be read.
    """
    path = work / PRIVATE / "manifest.json"
    try:
        if path.parent.is_file():
            raise CommandError(f"{path.parent} is a file; the course keeps its record in a folder there. Move it away.")
        data = path.read_bytes()
    except FileNotFoundError:
        return Manifest(path), None
    except OSError as error:
        advice = "Move it away; notebooks that differ from the release then count as yours and stay as they are."
        raise CommandError(f"Cannot read the record {path}: {error.strerror or error}. {advice}") from error
    try:
        table = json.loads(data.decode("utf-8"))["copied"]
        if not all(isinstance(key, str) and isinstance(value, str) for key, value in table.items()):
            raise ValueError("hashes are not text")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        aside = path.with_name("manifest.damaged.json")
        write_atomic(aside, data)
        reason = f"{path} is damaged ({error}) and was set aside as {aside.name}."
        return Manifest(path), f"{reason} Notebooks that differ from the release count as yours and stay as they are."
    return Manifest(path, dict(table)), None


def prepare(work: Path) -> list[str]:
    """Copy what is missing, update what the learner has not changed; returns one sentence for each thing to know.

    A damaged release or a folder that cannot be written to raises CommandError; each file is written in one step.
    """
    releases = {path.name: read_release(path) for path in units.released().values()}
    try:
        if work.exists() and not work.is_dir():
            raise CommandError(f"{work} is a file, not a folder. Choose another one with --dir.")
        units.refuse_release(work, "--dir")
        manifest, warning = load_manifest(work)
        # Shows that the folder can be used before any notebook is copied.
        manifest.save()
        remove_leftovers(work)
        remove_leftovers(work / PRIVATE)
        lines = [warning] if warning else []
        for name, release in releases.items():
            line = _prepare_one(work / name, release, manifest)
            lines += [line] if line else []
    except OSError as error:
        raise CommandError(f"Cannot use {work}: {error.strerror or error}. Choose another with --dir.") from error
    manifest.save()
    return lines


def _prepare_one(path: Path, release: bytes, manifest: Manifest) -> str | None:
    name, new = path.name, digest(release)
    if not path.exists():
        write_atomic(path, release)
        manifest.copied[name] = new
        return f"{name}: copied to {path.parent}."
    current = path.read_bytes()
    if digest(current) == new:
        manifest.copied[name] = new
        return None
    known = manifest.copied.get(name)
    if digest(current) == known:
        write_atomic(path, release)
        manifest.copied[name] = new
        return f"{name}: updated to the newer release (you had not changed it)."
    number = name.split("_")[0]
    advice = f"`kvlab reset {number}` gives you the release and keeps a copy of your notebook."
    try:
        parse_notebook(current)
    except ValueError as error:
        return f"{name}: your file was left as it is, but it is not a readable notebook: {error}. {advice}"
    if known == new:
        return f"{name}: yours is changed; it was left as it is."
    if known is None:
        return f"{name}: yours differs from the release and was left as it is. {advice}"
    return f"{name}: a newer release exists; yours has changes and was left as it is. {advice}"
