"""The released notebooks and the names that people use for them: `1`, `01`, `01_kv_cache`, `01_kv_cache.ipynb`."""

import os
from pathlib import Path

from kvlab.cli.errors import CommandError
from kvlab.paths import notebooks_dir


def released() -> dict[str, Path]:
    """Unit name (`01_kv_cache`) to released notebook, in order. Raises CommandError when there is none."""
    folder = notebooks_dir()
    units = {path.stem: path for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))}
    if not units:
        raise CommandError(f"There is no notebook in {folder}. In a checkout, `make build` makes them.")
    return units


def refuse_release(folder: Path, option: str) -> None:
    """Raise CommandError when `folder` is the release's own: nothing may be written or edited there."""
    if folder.is_dir() and os.path.samefile(folder, notebooks_dir()):
        raise CommandError(f"{folder} holds the released notebooks. Choose another folder with {option}.")


def find(name: str) -> str:
    """The unit that `name` means. Raises CommandError, listing the units, when there is none or more than one."""
    units = list(released())
    wanted = name.removesuffix(".ipynb")
    if wanted in units:
        return wanted
    prefix = f"{int(wanted):02d}_" if wanted.isascii() and wanted.isdigit() else f"{wanted}_"
    matches = [unit for unit in units if unit.startswith(prefix)]
    if len(matches) != 1:
        raise CommandError(f"There is no unit '{name}'. Units: {', '.join(units)}. A number such as 1 is enough.")
    return matches[0]
