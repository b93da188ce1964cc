"""Parameters of a notebook: names from its `parameters` cell, values checked before anything runs.

papermill itself ignores an unknown name, so a misspelt one would run the defaults and look fine.
"""

import ast
import contextlib
from pathlib import Path

from kvlab.cli.errors import CommandError
from kvlab.cli.files import cell_source, parse_notebook

Value = str | int | float | bool


def defaults(notebook: Path) -> dict[str, object]:
    """Name to default value of every parameter; a value that is no literal is given as its text.

    They are the assignments in the first cell with the tag `parameters`, as for papermill, which is not imported here:
    that takes longer than the whole command. Raises CommandError when the cell is no plain Python.
    """
    cells = parse_notebook(notebook.read_bytes())["cells"]
    tagged = (cell for cell in cells if "parameters" in cell.get("metadata", {}).get("tags", []))
    try:
        statements = ast.parse(cell_source(next(tagged, {}))).body
    except (SyntaxError, ValueError) as error:  # ValueError: a character that cannot be encoded
        raise CommandError(
            f"The parameters cell of {notebook.name} is not plain Python ({error}). Use assignments only."
        ) from error
    found: dict[str, object] = {}
    for node in statements:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id: _literal(node.value) for target in targets if isinstance(target, ast.Name)}
    return found


def _literal(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return ast.unparse(node)


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
