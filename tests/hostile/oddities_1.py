"""Honest hand-ins in odd clothes. The answers are right, so they must get full marks, unless the text says otherwise (1 of 4)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hostile.model import (
    EXERCISES,
    FULL,
    MAIN,
    Expect,
    Material,
    Notebook,
    Trick,
    answer,
    check,
    code_cell,
    dump,
    filled,
    marked,
)
from hostile.oddities_shared import Edit, _case, _odd


def _answers(change: Callable[[dict[str, Any]], Any]) -> Edit:
    """Change each answer cell in place."""

    def edit(notebook: Notebook, _: Material) -> None:
        for exercise in EXERCISES:
            change(answer(notebook, exercise))

    return edit


def _insert(before: bool, stub: bool) -> Edit:
    """A second cell with the same metadata, as copying in JupyterLab makes it: the released stub, or the same text."""

    def edit(notebook: Notebook, m: Material) -> None:
        for exercise in EXERCISES:
            cell = answer(notebook, exercise)
            twin = copy.deepcopy(answer(m.notebook, exercise) if stub else cell)
            twin["id"] = f"copy-{exercise}"[:64]
            at = next(n for n, c in enumerate(notebook["cells"]) if c is cell)
            notebook["cells"].insert(at if before else at + 1, twin)

    return edit


def _two_edited(notebook: Notebook, m: Material) -> None:
    for exercise in EXERCISES:
        cell = answer(notebook, exercise)
        twin = copy.deepcopy(cell) | {"id": f"copy-{exercise}", "source": marked(exercise, m.wrong[exercise])}
        notebook["cells"].insert(next(n for n, c in enumerate(notebook["cells"]) if c is cell), twin)


def _copied_without_metadata(notebook: Notebook, m: Material) -> None:
    for exercise in EXERCISES:
        cell = answer(notebook, exercise)
        notebook["cells"].append(code_cell(cell["source"]) | {"id": f"new-{exercise}"})
        cell["source"] = answer(m.notebook, exercise)["source"]


def _split(notebook: Notebook, m: Material) -> None:
    """As Ctrl-Shift-Minus does: both halves carry the metadata, the marker stays in the first."""
    for exercise in EXERCISES:
        cell = answer(notebook, exercise)
        source = m.right[exercise]
        at = min(source.index(word) for word in ("def ", "class ") if word in source)
        second = copy.deepcopy(cell) | {"id": f"half-{exercise}", "source": source[at:]}
        cell["source"] = marked(exercise, source[:at].rstrip("\n"))
        notebook["cells"].insert(next(n for n, c in enumerate(notebook["cells"]) if c is cell) + 1, second)


def _delete_checks(notebook: Notebook, _: Material) -> None:
    gone = [id(check(notebook, exercise)) for exercise in EXERCISES]
    notebook["cells"] = [cell for cell in notebook["cells"] if id(cell) not in gone]


def _delete_prose(notebook: Notebook, _: Material) -> None:
    notebook["cells"] = [
        cell for cell in notebook["cells"] if cell["cell_type"] == "code" or "nbgrader" in cell["metadata"]
    ]


def _only_answers(notebook: Notebook, _: Material) -> None:
    notebook["cells"] = [answer(notebook, exercise) for exercise in EXERCISES]


def _reverse(notebook: Notebook, _: Material) -> None:
    notebook["cells"].reverse()


def _retype(kind: str) -> Edit:
    def change(cell: dict[str, Any]) -> None:
        cell["cell_type"] = kind
        cell.pop("outputs", None)
        cell.pop("execution_count", None)

    return _answers(change)


def _strip_metadata(notebook: Notebook, _: Material) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}


def _strip_all_metadata(notebook: Notebook, _: Material) -> None:
    _strip_metadata(notebook, _)
    notebook["metadata"] = {}


def _merged(notebook: Notebook, m: Material) -> None:
    """All answers in the first answer cell, one below the other, each with its marker; the other cells are deleted."""
    first = answer(notebook, EXERCISES[0])
    first["source"] = "\n\n".join(answer(notebook, exercise)["source"] for exercise in EXERCISES)
    gone = [id(answer(notebook, exercise)) for exercise in EXERCISES[1:]]
    notebook["cells"] = [cell for cell in notebook["cells"] if id(cell) not in gone]


def _kernel(notebook: Notebook, _: Material) -> None:
    notebook["metadata"]["kernelspec"] = {
        "display_name": "My env (3.13)",
        "language": "python",
        "name": "conda-env-ml-py",
    }
    notebook["metadata"]["language_info"] = {
        "name": "python",
        "version": "3.13.1",
        "codemirror_mode": {"name": "ipython"},
    }


def _no_kernel(notebook: Notebook, _: Material) -> None:
    notebook["metadata"] = {"kvlab": notebook["metadata"].get("kvlab", {})}


def _r_kernel(notebook: Notebook, _: Material) -> None:
    notebook["metadata"]["kernelspec"] = {"display_name": "R", "language": "R", "name": "ir"}
    notebook["metadata"]["language_info"] = {"name": "R"}


def _colab(notebook: Notebook, _: Material) -> None:
    notebook["nbformat_minor"] = 0
    notebook["metadata"] |= {
        "accelerator": "GPU",
        "colab": {"provenance": [], "gpuType": "T4", "toc_visible": True},
        "kernelspec": {"display_name": "Python 3", "name": "python3"},
    }
    for n, cell in enumerate(notebook["cells"]):
        cell["metadata"] |= {"id": cell.pop("id")}
        if cell["cell_type"] == "code":
            cell["metadata"] |= {
                "outputId": f"{n:08x}-0000-4000-8000-000000000000",
                "colab": {"base_uri": "https://localhost:8080/"},
                "executionInfo": {
                    "status": "ok",
                    "timestamp": 1_700_000_000_000 + n,
                    "user_tz": -60,
                    "elapsed": 12,
                    "user": {"displayName": "A Learner", "userId": "0123456789"},
                },
            }


def _colab_stripped(notebook: Notebook, m: Material) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    _colab(notebook, m)
    notebook["metadata"].pop("kvlab", None)


def _ids_in_44(notebook: Notebook, _: Material) -> None:
    notebook["nbformat_minor"] = 4


def _no_ids_in_45(notebook: Notebook, _: Material) -> None:
    for cell in notebook["cells"]:
        del cell["id"]


def _same_ids(notebook: Notebook, _: Material) -> None:
    for cell in notebook["cells"]:
        cell["id"] = "same"


def _bad_ids(notebook: Notebook, _: Material) -> None:
    for n, cell in enumerate(notebook["cells"]):
        cell["id"] = f"spaces and ünïcode {n} " + "x" * 80


TRICKS: tuple[Trick, ...] = (
    Trick("honest-right", "Right answers, nothing else.", True, lambda m: {MAIN: dump(filled(m, m.right))}, FULL),
    Trick(
        "honest-wrong",
        "The wrong answers of the material, nothing else: what cheats are measured against.",
        True,
        lambda m: {MAIN: dump(filled(m, m.wrong))},
        Expect("as wrong"),
    ),
    Trick("honest-empty", "The released notebook as it is.", True, lambda m: {MAIN: dump(m.notebook)}, Expect("zero")),
    _odd(
        "copy-unedited-before",
        "An unedited copy of each answer cell stands before the edited one.",
        _insert(True, True),
        expect=Expect("full", flags=("copied",)),
    ),
    _odd(
        "copy-unedited-after",
        "An unedited copy of each answer cell stands after the edited one.",
        _insert(False, True),
        expect=Expect("full", flags=("copied",)),
    ),
    _odd(
        "copy-identical",
        "Each answer cell is there twice, both with the same text.",
        _insert(False, False),
        expect=Expect("full", flags=("copied",)),
    ),
    _odd(
        "copy-both-edited",
        "Two edited copies of each answer cell, the first wrong and the second right: either may count.",
        _two_edited,
        expect=Expect("any", flags=("copied",)),
    ),
    _odd(
        "copy-without-metadata",
        "The answer stands in a new cell with the marker, the original cell is untouched.",
        _copied_without_metadata,
    ),
    _odd("split-cell", "Each answer cell is split in two, as Jupyter does it.", _split),
    _odd(
        "merged-cells",
        "All answers stand in the first answer cell, the other cells are deleted: whose they are is open.",
        _merged,
        expect=_case(KVCache="any", cached_attention="any", kv_cache_bytes="any"),
    ),
    _odd(
        "check-cells-deleted",
        "The check cells are deleted.",
        _delete_checks,
        expect=Expect("full", flags=("changed", "missing")),
    ),
    _odd("prose-deleted", "All prose is deleted.", _delete_prose),
    _odd("only-answers-left", "Nothing but the four answer cells is left.", _only_answers),
    _odd("cells-reversed", "The cells stand in reverse order.", _reverse),
    _odd("answers-raw", "The answer cells were turned into raw cells.", _retype("raw")),
    _odd("answers-markdown", "The answer cells were turned into markdown cells.", _retype("markdown")),
    _odd("metadata-stripped", "All cell metadata is gone.", _strip_metadata),
    _odd("all-metadata-stripped", "All metadata is gone, the notebook's too.", _strip_all_metadata),
    _odd("kernel-unknown", "The kernel has another learner's name.", _kernel),
    _odd("kernel-missing", "No kernelspec and no language_info.", _no_kernel),
    _odd("kernel-of-r", "The kernelspec says R.", _r_kernel),
    _odd("colab", "nbformat 4.0 without ids, with Colab's metadata.", _colab),
    _odd("colab-stripped", "The same, and the course's own metadata gone.", _colab_stripped),
    _odd("ids-in-nbformat-4-4", "nbformat 4.4 with cell ids, which its schema forbids.", _ids_in_44),
    _odd("no-ids-in-nbformat-4-5", "nbformat 4.5 without cell ids, which its schema demands.", _no_ids_in_45),
    _odd("same-ids", "All cells have the same nbformat id.", _same_ids),
    _odd("bad-ids", "Cell ids are long and have spaces.", _bad_ids),
)
