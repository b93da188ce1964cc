"""Parameters of a notebook: names from its `parameters` cell, values checked before anything runs.

papermill itself ignores an unknown name, so a misspelt one would run the defaults and look fine.
"""

import ast
import contextlib
from pathlib import Path

from kvlab.cli.errors import CommandError

Value = str | int | float | bool


def defaults(notebook: Path) -> dict[str, object]:
    """Name to default value of every parameter; a value that is no literal is given as its text."""
    import papermill

    found: dict[str, object] = {}
    for name, item in papermill.inspect_notebook(str(notebook)).items():
        try:
            found[name] = ast.literal_eval(item["default"])
        except (ValueError, SyntaxError):
            found[name] = item["default"]
    return found


def convert(name: str, text: str, default: object) -> Value:
    """`text` as a value of the default's type. Raises CommandError when it is none."""
    if isinstance(default, bool):
        table = {"true": True, "false": False, "1": True, "0": False}
        if text.lower() not in table:
            raise CommandError(f"Parameter {name} is true or false, not '{text}'.")
        return table[text.lower()]
    if isinstance(default, int):
        with contextlib.suppress(ValueError):
            return int(text)
        raise CommandError(f"Parameter {name} is a whole number, not '{text}'.")
    if isinstance(default, float):
        with contextlib.suppress(ValueError):
            return float(text)
        raise CommandError(f"Parameter {name} is a number, not '{text}'.")
    return text


def assign(notebooks: dict[str, Path], given: list[tuple[str, str]]) -> dict[str, dict[str, Value]]:
    """The parameters of each notebook. A name that none of them has raises CommandError and lists the known ones."""
    result: dict[str, dict[str, Value]] = {unit: {} for unit in notebooks}
    if not given:
        return result
    known = {unit: defaults(path) for unit, path in notebooks.items()}
    for name, text in given:
        owners = [unit for unit, table in known.items() if name in table]
        if not owners:
            names = ", ".join(sorted({key for table in known.values() for key in table})) or "none"
            raise CommandError(f"No chosen notebook has a parameter '{name}'. Parameters: {names}.")
        for unit in owners:
            result[unit][name] = convert(name, text, known[unit][name])
    return result
