"""Files that are no notebook. The owner is told in a sentence; nobody else loses anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostile.model import MAIN, Expect, HandIn, Material, Notebook, Trick, dump, filled

REFUSED = Expect("zero", graded=False, flags=("unreadable",))
# The file is damaged where a tolerant reader may look away: grading it or refusing it are both fair, crashing is not.
EITHER = Expect("any", graded=None)


def _bytes(name: str, what: str, content: Callable[[Material], bytes], expect: Expect = REFUSED) -> Trick:
    return Trick(name, what, True, lambda m: {MAIN: content(m)}, expect)


def _changed(name: str, what: str, change: Callable[[Notebook], Any], expect: Expect = EITHER) -> Trick:
    """Right answers in a notebook whose structure is damaged by `change`, which may return what to write instead."""

    def make(m: Material) -> HandIn:
        notebook = filled(m, m.right)
        instead = change(notebook)
        return {MAIN: dump(notebook if instead is None else instead)}

    return Trick(name, what, True, make, expect)


def _set(key: str, value: Any) -> Callable[[Notebook], None]:
    def change(notebook: Notebook) -> None:
        notebook[key] = value

    return change


def _each_cell(key: str, value: Any) -> Callable[[Notebook], None]:
    def change(notebook: Notebook) -> None:
        for cell in notebook["cells"]:
            cell[key] = value

    return change


def _mixed_cells(notebook: Notebook) -> None:
    notebook["cells"] = [
        None,
        3,
        "cell",
        [],
        {},
        {"cell_type": "code"},
        {"cell_type": ["code"], "source": {}},
        *notebook["cells"],
    ]


def _null_metadata(notebook: Notebook) -> None:
    notebook["metadata"] = None
    _each_cell("metadata", None)(notebook)


def _version_3(notebook: Notebook) -> Notebook:
    cells = [
        {"cell_type": "code", "language": "python", "input": c["source"], "outputs": [], "metadata": c["metadata"]}
        for c in notebook["cells"]
    ]
    return {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": cells, "metadata": {}}],
    }


def _good(m: Material) -> bytes:
    return dump(filled(m, m.right))


TRICKS: tuple[Trick, ...] = (
    _bytes("empty-file", "The file is empty.", lambda m: b""),
    _bytes("not-json", "The file is a Python script.", lambda m: "\n\n".join(m.right.values()).encode()),
    _bytes(
        "html-page",
        "The file is a log-in page that was saved instead of the notebook.",
        lambda m: b"<!DOCTYPE html><html><title>Sign in</title></html>",
    ),
    _bytes("json-list", "The file is a JSON list.", lambda m: b"[]"),
    _bytes("json-number", "The file is a JSON number of 100,000 digits.", lambda m: b"9" * 100_000),
    _bytes("json-null", "The file is null.", lambda m: b"null"),
    _bytes("json-other", "The file is a JSON object that is no notebook.", lambda m: b'{"cells": {}}'),
    _bytes("truncated", "The file ends in the middle.", lambda m: _good(m)[: len(_good(m)) // 2]),
    _bytes("binary", "The file is random bytes.", lambda m: bytes((n * 7919 >> 3) & 255 for n in range(65_536))),
    _bytes("zip-file", "The file is a zip archive.", lambda m: b"PK\x03\x04" + bytes(2000)),
    _bytes("whitespace", "The file is 60 MB of spaces.", lambda m: b" " * 60_000_000),
    _bytes("deep-json", "The file is 200,000 lists inside each other.", lambda m: b"[" * 200_000),
    _bytes(
        "deep-metadata",
        "The notebook's metadata is 50,000 objects deep.",
        lambda m: _good(m).replace(
            b'"kernelspec":', b'"deep": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b', "kernelspec":', 1
        ),
    ),
    _bytes(
        "invalid-utf-8",
        "Bytes that are no UTF-8 stand in an answer.",
        lambda m: _good(m).replace(b"raise ValueError", b"raise \xff\xfeValueError", 1),
        EITHER,
    ),
    _bytes("utf-16", "The file is UTF-16.", lambda m: _good(m).decode().encode("utf-16"), EITHER),
    _bytes(
        "lone-surrogates",
        "An answer has half of a surrogate pair in a comment.",
        lambda m: _good(m).replace(b"# exercise: KVCache\\n", b"# exercise: KVCache\\n# \\ud83d\\n", 1),
        EITHER,
    ),
    _bytes("nul-bytes-behind", "A thousand NUL bytes follow the notebook.", lambda m: _good(m) + bytes(1000), EITHER),
    _bytes("two-notebooks", "Two notebooks stand in one file.", lambda m: _good(m) * 2),
    _bytes(
        "duplicate-keys",
        "The key cells is there twice, the second time empty.",
        lambda m: _good(m).rstrip()[:-1] + b', "cells": []}',
        EITHER,
    ),
    _bytes(
        "conflict-markers",
        "Markers of a git conflict stand in the file.",
        lambda m: b"<<<<<<< HEAD\n" + _good(m) + b"=======\n" + _good(m) + b">>>>>>> mine\n",
    ),
    _bytes(
        "nan",
        "NaN and Infinity stand in the metadata.",
        lambda m: _good(m).replace(b'"nbformat_minor": 5', b'"nbformat_minor": 5, "x": NaN, "y": -Infinity', 1),
        EITHER,
    ),
    _changed("nbformat-3", "nbformat 3, with worksheets.", _version_3, REFUSED),
    _changed("nbformat-99", "The format is nbformat 99.", _set("nbformat", 99), EITHER),
    _changed("nbformat-text", "nbformat is a text.", _set("nbformat", "4"), EITHER),
    _changed("nbformat-huge-minor", "nbformat_minor has 4,000 digits.", _set("nbformat_minor", 10**4000), EITHER),
    _changed(
        "nbformat-missing",
        "nbformat is missing.",
        lambda nb: {k: v for k, v in nb.items() if not k.startswith("nbformat")},
        EITHER,
    ),
    _changed("cells-object", "cells is an object.", _set("cells", {"0": {}}), REFUSED),
    _changed("cells-text", "cells is a text.", _set("cells", "def positions_processed"), REFUSED),
    _changed("cells-empty", "There are no cells.", _set("cells", []), Expect("zero", flags=("missing",))),
    _changed("cells-missing", "cells is missing.", lambda nb: {k: v for k, v in nb.items() if k != "cells"}, REFUSED),
    _changed("cells-mixed", "Between the cells stand numbers, texts, lists and nulls.", _mixed_cells),
    _changed(
        "cells-many",
        "100,000 more empty cells.",
        lambda nb: nb["cells"].extend(
            {"cell_type": "raw", "id": f"c{n}", "metadata": {}, "source": ""} for n in range(100_000)
        ),
    ),
    _changed("source-number", "Each source is a number.", _each_cell("source", 7), Expect("zero")),
    _changed(
        "source-mixed",
        "Each source is a list of numbers and nulls.",
        _each_cell("source", ["x = 1\n", 2, None, {}]),
        Expect("zero"),
    ),
    _changed("metadata-null", "The metadata of the notebook and of each cell is null.", _null_metadata),
    _changed("metadata-list", "The metadata of each cell is a list.", _each_cell("metadata", ["nbgrader"])),
    _changed("outputs-number", "The outputs of each cell are a number.", _each_cell("outputs", 3)),
    _changed("types-unknown", "Each cell has a type that does not exist.", _each_cell("cell_type", "heading")),
    Trick(
        "folder-as-notebook", "A folder has the notebook's name.", True, lambda m: {f"{MAIN}/inside.txt": b"x"}, REFUSED
    ),
    Trick(
        "no-notebook",
        "The folder holds a text file, no notebook.",
        True,
        lambda m: {"readme.txt": b"I hand in later."},
        REFUSED,
    ),
    Trick(
        "renamed-file",
        "The notebook has the name that a browser gave it. Accepting or refusing it are both fair.",
        True,
        lambda m: {f"{MAIN[:-6]} (1).ipynb": _good(m)},
        EITHER,
    ),
    Trick(
        "timestamp-garbage",
        "timestamp.txt beside the notebook is no date.",
        False,
        lambda m: {MAIN: _good(m), "timestamp.txt": b"yesterday, I swear\n"},
        EITHER,
    ),
    Trick(
        "timestamp-early",
        "timestamp.txt says that the hand-in is from 1999.",
        False,
        lambda m: {MAIN: _good(m), "timestamp.txt": b"1999-01-01 00:00:00 UTC\n"},
        EITHER,
    ),
)
