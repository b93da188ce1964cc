"""Honest hand-ins in odd clothes. The answers are right, so they must get full marks, unless the text says otherwise (2 of 4)."""

from __future__ import annotations

import base64

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
from hostile.oddities_shared import _above, _case, _odd, _sources


def _widgets(notebook: Notebook, _: Material) -> None:
    models = {
        f"{n:032x}": {"model_module": "@jupyter-widgets/base", "model_name": "LayoutModel", "state": {}}
        for n in range(30)
    }
    notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": models}


def _vscode(notebook: Notebook, _: Material) -> None:
    for cell in notebook["cells"]:
        cell["metadata"] = {
            "vscode": {"languageId": "python"},
            **cell["metadata"],
            "jupyter": {"source_hidden": True},
            "collapsed": True,
        }
    notebook["metadata"]["vscode"] = {"interpreter": {"hash": "0" * 64}}
    notebook["metadata"]["orig_nbformat"] = 4


def _extra_fields(notebook: Notebook, _: Material) -> None:
    notebook["extra"] = {"made by": "another editor"}
    for cell in notebook["cells"]:
        cell["attachments"] = {}
        cell["unknown"] = [1, 2]


def _traces(notebook: Notebook, _: Material) -> None:
    """A notebook that was run: counts, warnings on stderr, an error in an exercise's check, a big picture."""
    picture = base64.b64encode(bytes(15_000_000)).decode()
    for n, cell in enumerate(c for c in notebook["cells"] if c["cell_type"] == "code"):
        cell["execution_count"] = n + 1
        cell["outputs"] = [{"output_type": "stream", "name": "stderr", "text": ["UserWarning: slow\n"]}]
    demo = next(c for c in notebook["cells"] if c["cell_type"] == "code" and "nbgrader" not in c["metadata"])
    demo["outputs"].append({"output_type": "display_data", "data": {"image/png": picture}, "metadata": {}})
    check(notebook, "KVCache")["outputs"].append(
        {"output_type": "error", "ename": "AssertionError", "evalue": "KVCache: not right yet", "traceback": ["old"]}
    )


def _odd_outputs(notebook: Notebook, _: Material) -> None:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "pyout", "text": "from an old Jupyter"}, {"output_type": "stream"}]
            cell["execution_count"] = "*"


def _demos_broken(notebook: Notebook, _: Material) -> None:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and "nbgrader" not in cell["metadata"]:
            cell["source"] = "raise RuntimeError('I tried something here')"


def _right_code_elsewhere(notebook: Notebook, m: Material) -> None:
    for exercise in EXERCISES:
        answer(notebook, exercise)["source"] = answer(m.notebook, exercise)["source"]
        notebook["cells"].append(code_cell(m.right[exercise]) | {"id": f"mine-{exercise}"})


def _leans_on_a_cell(notebook: Notebook, m: Material) -> None:
    cell = answer(notebook, "kv_cache_bytes")
    at = next(n for n, c in enumerate(notebook["cells"]) if c is cell)
    notebook["cells"].insert(
        at, code_cell("def product_of(*factors):\n    return math.prod(factors)") | {"id": "helper"}
    )
    cell["source"] = marked(
        "kv_cache_bytes",
        m.right["kv_cache_bytes"].replace(
            "return 2 * n_layers * n_kv_heads * d_head * seq_len * batch * bytes_per_value",
            "return product_of(2, n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value)",
        ),
    )


def _without_marker(exercise: str, source: str) -> str:
    return source.split("\n", 1)[1]


def _marker_only(notebook: Notebook, _: Material) -> None:
    for exercise in EXERCISES:
        del answer(notebook, exercise)["metadata"]["nbgrader"]


def _marker_moved(exercise: str, source: str) -> str:
    return "\n\n" + source.replace(
        f"# exercise: {exercise}", f"  #exercise :{exercise}  ".replace("  #exercise :", "# exercise:  "), 1
    )


def _marker_of_another(notebook: Notebook, m: Material) -> None:
    """A marker copied along with pasted text: the cell of one exercise says the name of another."""
    cell = answer(notebook, "kv_cache_bytes")
    cell["source"] = marked("positions_processed", m.right["kv_cache_bytes"])


def _tabs(exercise: str, source: str) -> str:
    lines = []
    for line in source.split("\n"):
        depth = len(line) - len(line.lstrip(" "))
        lines.append("\t" * (depth // 4) + line.lstrip(" "))
    return "\n".join(lines)


_STDERR = """
import logging, sys, warnings

warnings.warn("this answer is slow", RuntimeWarning)
warnings.warn("deprecated", DeprecationWarning)
logging.warning("about to define NAME")
print("debug", file=sys.stderr)
"""


_MAGICS = """
%matplotlib inline
%config InlineBackend.figure_format = "retina"
!echo installed
files = !ls
import math
math.sqrt?
?len
%timeit -n 1 -r 1 sum(range(10))
%who
_ = %pwd
"""


TRICKS: tuple[Trick, ...] = (
    _odd("widget-state-unwrapped", "Widget metadata without the key state, as Colab writes it.", _widgets),
    _odd("vscode", "Metadata of VS Code.", _vscode),
    _odd("extra-fields", "Fields that the schema does not know, in the notebook and in every cell.", _extra_fields),
    _odd("big-outputs", "A notebook that was run: warnings, an old error, and a picture of 20 MB.", _traces),
    _odd("odd-outputs", "Outputs of an old format and an execution count that is a star.", _odd_outputs),
    _odd("demonstrations-broken", "Every demonstration cell raises.", _demos_broken),
    _odd(
        "sources-as-lines", "Sources are lists of lines.", _sources(lambda _, source: source.splitlines(keepends=True))
    ),
    _odd(
        "sources-as-pieces",
        "Sources are lists of pieces that are no lines.",
        _sources(lambda _, source: [source[n : n + 7] for n in range(0, len(source), 7)]),
    ),
    Trick(
        "file-with-bom",
        "The file begins with a byte order mark.",
        True,
        lambda m: {MAIN: b"\xef\xbb\xbf" + dump(filled(m, m.right))},
        FULL,
    ),
    _odd(
        "windows-line-endings",
        "Windows line endings in the answers.",
        _sources(lambda _, source: source.replace("\n", "\r\n")),
    ),
    _odd("tabs", "Tabs instead of spaces.", _sources(_tabs)),
    _odd(
        "bom-in-cell",
        "A byte order mark at the start of each answer cell.",
        _sources(lambda _, source: "\ufeff" + source),
    ),
    _odd(
        "trailing-spaces",
        "Trailing spaces, and empty lines above and below.",
        _sources(lambda _, source: "\n\n" + source.replace("\n", "   \n") + "\n\n\n"),
    ),
    _odd("marker-lost", "The marker line is gone, the metadata is there.", _sources(_without_marker)),
    _odd("marker-untidy", "The marker line has more spaces and stands below empty lines.", _sources(_marker_moved)),
    _odd("metadata-lost", "The metadata of the answer cells is gone, the marker line is there.", _marker_only),
    _odd(
        "marker-of-another",
        "An answer cell's marker names another exercise; its id is right. Which of the two counts is open.",
        _marker_of_another,
        expect=_case(positions_processed="any", kv_cache_bytes="any"),
    ),
    _odd(
        "right-code-elsewhere",
        "The answers stand in new cells without marker or id: only answer cells are collected.",
        _right_code_elsewhere,
        expect=Expect("zero", flags=("missing",)),
    ),
    _odd(
        "leans-on-another-cell",
        "One answer needs a helper from another cell: it is told so, the others are full.",
        _leans_on_a_cell,
        expect=_case(kv_cache_bytes=(0.0, 0.5)),
    ),
    _odd(
        "extra-notebooks",
        "More notebooks and files lie in the folder.",
        lambda notebook, _: None,
        files={
            "01_kv_cache-Copy1.ipynb": b"{}",
            "scratch.ipynb": b"not json",
            ".ipynb_checkpoints/01_kv_cache-checkpoint.ipynb": b"",
            "Thumbs.db": b"\x00",
            "__MACOSX/._01_kv_cache.ipynb": b"\x00\x05",
        },
    ),
    _above("stderr", "Warnings, logging and text on stderr.", _STDERR),
    _above("magics", "Line magics, shell lines and help lines.", _MAGICS),
)
