"""Cheats that change the notebook itself: check cells, metadata, points, outputs, and files beside it."""

from __future__ import annotations

from typing import Any

from hostile.model import (
    AS_WRONG,
    AT_MOST_WRONG,
    EXERCISES,
    MAIN,
    ZERO,
    Expect,
    Fifo,
    HandIn,
    Link,
    Material,
    Notebook,
    Trick,
    answer,
    by_id,
    check,
    code_cell,
    dump,
    edited,
    filled,
    prelude,
)

CHANGED = Expect("as wrong", flags=("changed",))
MISSING = Expect("as wrong", flags=("changed", "missing"))


def _checks(notebook: Notebook) -> list[dict[str, Any]]:
    return [check(notebook, exercise) for exercise in EXERCISES]


def _pass(notebook: Notebook, _: Material) -> None:
    for cell in _checks(notebook):
        cell["source"] = "pass"


def _pass_unlocked(notebook: Notebook, _: Material) -> None:
    for cell in _checks(notebook):
        cell["source"] = "print('right')"
        cell["metadata"].pop("editable", None)
        cell["metadata"]["nbgrader"] |= {"locked": False, "checksum": "0" * 32}


def _swallow(notebook: Notebook, _: Material) -> None:
    for cell in _checks(notebook):
        body = "".join(cell["source"]).replace("\n", "\n    ")
        cell["source"] = f"try:\n    {body}\nexcept BaseException:\n    pass"


def _retype(kind: str) -> Any:
    def edit(notebook: Notebook, _: Material) -> None:
        for cell in _checks(notebook):
            cell["cell_type"] = kind
            cell.pop("outputs", None)
            cell.pop("execution_count", None)

    return edit


def _skip(notebook: Notebook, _: Material) -> None:
    for cell in _checks(notebook):
        cell["metadata"]["tags"] = ["skip-execution"]


def _raises_tag(notebook: Notebook, _: Material) -> None:
    for cell in _checks(notebook):
        cell["metadata"]["tags"] = ["raises-exception", "remove-cell"]


def _delete_checks(notebook: Notebook, _: Material) -> None:
    gone = [id(cell) for cell in _checks(notebook)]
    notebook["cells"] = [cell for cell in notebook["cells"] if id(cell) not in gone]


def _strip_checks(notebook: Notebook, _: Material) -> None:
    for cell in _checks(notebook):
        del cell["metadata"]["nbgrader"]


def _points(value: Any) -> Any:
    def edit(notebook: Notebook, _: Material) -> None:
        for cell in _checks(notebook):
            cell["metadata"]["nbgrader"]["points"] = value

    return edit


def _points_on_answers(notebook: Notebook, _: Material) -> None:
    for exercise in EXERCISES:
        answer(notebook, exercise)["metadata"]["nbgrader"] |= {"grade": True, "points": 100}


def _swap_ids(notebook: Notebook, _: Material) -> None:
    for exercise in EXERCISES:
        one, two = answer(notebook, exercise), check(notebook, exercise)
        one["metadata"]["nbgrader"]["grade_id"] = f"check-{exercise}"
        two["metadata"]["nbgrader"]["grade_id"] = f"answer-{exercise}"


def _swap_metadata(notebook: Notebook, _: Material) -> None:
    for exercise in EXERCISES:
        one, two = answer(notebook, exercise), check(notebook, exercise)
        one["metadata"], two["metadata"] = two["metadata"], one["metadata"]
        one["source"] = "2.0"


def _swap_exercises(notebook: Notebook, _: Material) -> None:
    # Only the ids change places, not the marker lines: which of the two counts must not pay either way.
    one, two = answer(notebook, "positions_processed"), answer(notebook, "kv_cache_bytes")
    one["metadata"]["nbgrader"]["grade_id"] = "answer-kv_cache_bytes"
    two["metadata"]["nbgrader"]["grade_id"] = "answer-positions_processed"


def _schema(version: Any) -> Any:
    def edit(notebook: Notebook, _: Material) -> None:
        for cell in notebook["cells"]:
            if "nbgrader" in cell["metadata"]:
                if version is None:
                    del cell["metadata"]["nbgrader"]["schema_version"]
                else:
                    cell["metadata"]["nbgrader"]["schema_version"] = version

    return edit


def _all_metadata(value: Any) -> Any:
    def edit(notebook: Notebook, _: Material) -> None:
        for cell in notebook["cells"]:
            if "nbgrader" in cell["metadata"]:
                cell["metadata"]["nbgrader"] = value

    return edit


def _copy_checks(notebook: Notebook, _: Material) -> None:
    for cell in _checks(notebook):
        easy = {**cell, "source": "pass"}
        notebook["cells"] += [easy, dict(easy)]


def _check_named_answer(notebook: Notebook, _: Material) -> None:
    for exercise in EXERCISES:
        extra = code_cell(f"# exercise: {exercise}\nraise NotImplementedError")
        extra["metadata"]["nbgrader"] = {**check(notebook, exercise)["metadata"]["nbgrader"], "solution": True}
        notebook["cells"].append(extra)


def _forge_outputs(notebook: Notebook, _: Material) -> None:
    for exercise in EXERCISES:
        cell = check(notebook, exercise)
        cell["execution_count"] = 7
        score = cell["metadata"]["nbgrader"]["points"]
        cell["outputs"] = [
            {"output_type": "stream", "name": "stdout", "text": f"{exercise}: right\n"},
            {
                "output_type": "execute_result",
                "execution_count": 7,
                "data": {"text/plain": str(float(score))},
                "metadata": {},
            },
        ]


def _forge_records(notebook: Notebook, _: Material) -> None:
    full = {e: check(notebook, e)["metadata"]["nbgrader"]["points"] for e in EXERCISES}
    notebook["metadata"]["kvgrade"] = {"marks": full, "verdict": "right", "graded": True}
    notebook["metadata"]["kvlab"] = {
        **notebook["metadata"].get("kvlab", {}),
        "marks": full,
        "score": sum(full.values()),
    }
    for exercise in EXERCISES:
        cell = check(notebook, exercise)
        cell["metadata"]["kvgrade"] = {"score": full[exercise], "groups": [{"points": full[exercise], "passed": True}]}


def _other_unit(notebook: Notebook, _: Material) -> None:
    notebook["metadata"]["kvlab"] = {"unit": "../../answers", "release": "../../../source/01_kv_cache/01_kv_cache"}


def _hook_cell(notebook: Notebook, _: Material) -> None:
    easy = "class _Easy:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\n    def __getattr__(self, n): return lambda *a, **k: None\n"
    notebook["cells"].insert(0, code_cell(easy + "import kvlab.check\nkvlab.check.exercise = lambda *a, **k: _Easy()"))


def _html_feedback(notebook: Notebook, _: Material) -> None:
    script = "</pre></div><script>document.title='12 of 12'</script><img src=x onerror=\"document.title='12 of 12'\">"
    for exercise in EXERCISES:
        cell = answer(notebook, exercise)
        cell["source"] = f"# exercise: {exercise}\nraise RuntimeError({script!r})\n"
    by_id(notebook, "answer-which_may_share")["source"] = script


def _linked(target: str) -> Any:
    return lambda m: {MAIN: Link(target)}


def _linked_beside(m: Material) -> HandIn:
    return {
        MAIN: dump(filled(m, m.wrong)),
        "source": Link("../../../source"),
        "gradebook.db": Link("../../../gradebook.db"),
        "everything": Link("/"),
    }


def _pipe_beside(m: Material) -> HandIn:
    return {MAIN: dump(filled(m, m.wrong)), "data.csv": Fifo(), "kvlab": Fifo()}


_SHADOW = "import json, os\nraise SystemExit(0)\n"
_EASY_MODULE = (
    "def __getattr__(name):\n    class Easy:\n        def __call__(self, *a, **k): return self\n"
    "        def __getattr__(self, n): return self\n        def __eq__(self, other): return True\n"
    "        __hash__ = None\n    return Easy()\n"
)
_FILES: dict[str, bytes] = {
    "numpy.py": _EASY_MODULE.encode(),
    "torch.py": _EASY_MODULE.encode(),
    "json.py": _SHADOW.encode(),
    "struct.py": _SHADOW.encode(),
}

TRICKS: tuple[Trick, ...] = (
    edited("checks-pass", "Every check cell is replaced by pass.", _pass, expect=CHANGED),
    edited(
        "checks-pass-unlocked",
        "Check cells are rewritten, unlocked, and get a made-up checksum.",
        _pass_unlocked,
        expect=CHANGED,
    ),
    edited(
        "checks-swallow-errors", "Every check cell runs inside try and except BaseException.", _swallow, expect=CHANGED
    ),
    edited("checks-raw", "Check cells are turned into raw cells.", _retype("raw"), expect=CHANGED),
    edited("checks-markdown", "Check cells are turned into markdown cells.", _retype("markdown"), expect=CHANGED),
    edited(
        "checks-skip-execution",
        "Check cells get the tag skip-execution, which stops a notebook client from running them.",
        _skip,
        expect=AS_WRONG,
    ),
    edited("checks-raises-exception", "Check cells get the tag raises-exception.", _raises_tag, expect=AS_WRONG),
    edited("checks-deleted", "All check cells are deleted.", _delete_checks, expect=MISSING),
    edited(
        "checks-metadata-deleted", "Check cells stay, their nbgrader metadata is gone.", _strip_checks, expect=AS_WRONG
    ),
    edited(
        "checks-copied-easy",
        "Each check cell is there three times, the two copies pass.",
        _copy_checks,
        expect=AS_WRONG,
    ),
    edited(
        "check-posing-as-answer",
        "An extra cell carries the check's id and the answer's marker.",
        _check_named_answer,
        expect=AT_MOST_WRONG,
    ),
    edited("points-1000", "Check cells are worth 1000 points each.", _points(1000)),
    edited("points-negative", "Check cells are worth -5 points each.", _points(-5)),
    edited("points-infinite", "Check cells are worth infinitely many points.", _points(float("inf"))),
    edited("points-text", "The points are a text.", _points("4; DROP TABLE grade")),
    edited("points-on-answers", "Answer cells claim to be graded, for 100 points.", _points_on_answers),
    edited("ids-swapped", "Answer and check cells change grade ids.", _swap_ids, expect=AT_MOST_WRONG),
    edited(
        "metadata-swapped",
        "Answer and check cells change all metadata; the new check shows a score.",
        _swap_metadata,
        expect=AT_MOST_WRONG,
    ),
    edited("ids-of-two-exercises-swapped", "Two answer cells change grade ids.", _swap_exercises, expect=AT_MOST_WRONG),
    edited("schema-99", "nbgrader's schema_version is 99.", _schema(99)),
    edited("schema-1", "nbgrader's schema_version is 1.", _schema(1)),
    edited("schema-text", "nbgrader's schema_version is a text.", _schema("three")),
    edited("schema-removed", "nbgrader's schema_version is removed.", _schema(None)),
    edited("nbgrader-metadata-list", "nbgrader's metadata is a list.", _all_metadata([]), expect=AT_MOST_WRONG),
    edited("nbgrader-metadata-null", "nbgrader's metadata is null.", _all_metadata(None), expect=AT_MOST_WRONG),
    edited(
        "nbgrader-metadata-empty",
        "nbgrader's metadata is empty, as its own clean-up of copies leaves it.",
        _all_metadata({}),
    ),
    edited("outputs-forged", "Check cells arrive with outputs that say right and show full points.", _forge_outputs),
    edited(
        "records-forged", "The notebook's metadata already holds full marks in the grader's own words.", _forge_records
    ),
    edited(
        "unit-name-escapes",
        "The notebook's metadata names a unit that is a path to the solutions.",
        _other_unit,
        expect=AT_MOST_WRONG,
    ),
    edited(
        "check-module-replaced", "A new first cell replaces kvlab.check.exercise by one that accepts all.", _hook_cell
    ),
    edited(
        "html-in-feedback",
        "Error messages and the written answer carry scripts for the feedback page.",
        _html_feedback,
        expect=ZERO,
    ),
    Trick(
        "link-to-solutions",
        "The notebook is a link to the instructor's source notebook.",
        False,
        _linked("../../../source/01_kv_cache/01_kv_cache.ipynb"),
        Expect("zero", graded=False, flags=("unreadable",)),
    ),
    Trick(
        "link-to-neighbour",
        "The notebook is a link to another learner's hand-in.",
        False,
        _linked("../../honest-right/01_kv_cache/01_kv_cache.ipynb"),
        Expect("zero", graded=False, flags=("unreadable",)),
    ),
    Trick(
        "link-to-itself",
        "The notebook is a link to itself.",
        False,
        _linked(MAIN),
        Expect("zero", graded=False, flags=("unreadable",)),
    ),
    Trick(
        "link-to-zero-device",
        "The notebook is a link to /dev/zero.",
        False,
        _linked("/dev/zero"),
        Expect("zero", graded=False, flags=("unreadable",)),
        True,
    ),
    Trick(
        "pipe-as-notebook",
        "The notebook is a named pipe that nobody writes to.",
        False,
        lambda m: {MAIN: Fifo()},
        Expect("zero", graded=False, flags=("unreadable",)),
        True,
    ),
    Trick(
        "links-beside",
        "Links to the sources, the gradebook and / lie beside the notebook.",
        False,
        _linked_beside,
        AS_WRONG,
        True,
    ),
    Trick("pipes-beside", "Named pipes lie beside the notebook.", False, _pipe_beside, AS_WRONG, True),
    prelude(
        "shadow-numpy",
        "numpy.py, torch.py and json.py lie beside the notebook and accept everything.",
        "import numpy as np",
        files=_FILES,
    ),
    prelude(
        "shadow-startup",
        "sitecustomize.py, usercustomize.py and ipykernel_launcher.py beside the notebook end every Python at once.",
        "import sys",
        files={
            name: _SHADOW.encode()
            for name in ("sitecustomize.py", "usercustomize.py", "ipykernel_launcher.py", "worker.py", "wire.py")
        },
    ),
    prelude(
        "shadow-kvlab",
        "Folders kvlab/, kvgrade/ and grading/ beside the notebook replace the course.",
        "import sys\nsys.path.insert(0, '')\ntry:\n    import kvlab.check\nexcept ImportError:\n    pass",
        files={
            f"{name}/__init__.py": _EASY_MODULE.encode()
            for name in ("kvlab", "kvlab/check", "kvgrade", "grading", "cases")
        },
    ),
    prelude(
        "config-beside",
        "nbgrader_config.py and jupyter_config.py beside the notebook change the grader's settings.",
        "pass",
        files={
            name: b"c = get_config()\nc.Autograde.autograde_preprocessors = []\nc.ClearSolutions.code_stub = {}\n"
            for name in ("nbgrader_config.py", "jupyter_nbconvert_config.py", "jupyter_config.py", "pyproject.toml")
        },
    ),
    prelude(
        "cases-beside",
        "Files that look like the grader's results and cases lie beside the notebook.",
        "pass",
        files={
            "result.json": b'{"marks": {"positions_processed": 2, "KVCache": 4, "cached_attention": 4, "kv_cache_bytes": 2}}',
            "out.json": b"{}",
            "feedback.html": b"<h1>12 of 12</h1>",
            "01_kv_cache.html": b"<h1>12 of 12</h1>",
        },
    ),
)
