"""Cheats in what an answer returns: objects that lie, results without end, and answers that know the visible checks (2 of 2)."""

from __future__ import annotations

from hostile.lying_shared import LITTLE, REFUSED
from hostile.model import (
    EXERCISES,
    MAIN,
    Expect,
    HandIn,
    Material,
    Trick,
    dump,
    filled,
    replaced,
    returning,
)

_GROWS = """
class Grows(dict):
    def __iter__(self):
        n = 0
        while True:
            self[n] = n
            yield n
            n += 1
    keys = __iter__
    def items(self):
        for n in self:
            yield n, n
"""


_LOOPED = """
looped = []
looped.append(looped)
table = {}
table["self"] = table
pair = (looped, table)
"""


_DEEP = """
deep = []
for _ in range(100_000):
    deep = [deep]
"""


_STRIDES = """
import numpy as np

big = np.lib.stride_tricks.as_strided(np.zeros(1), shape=(10**5, 10**5), strides=(0, 0))
"""


def _knows_visible(m: Material) -> HandIn:
    """Right on the inputs of the visible checks, a constant elsewhere. No rule was understood."""
    right = m.right
    sources = {
        "positions_processed": """
def positions_processed(prompt_len, n_new, cached):
    known = {(1, 200, False): 20100, (1, 200, True): 200, (5, 3, False): 18, (5, 1, True): 5}
    if (prompt_len, n_new) in ((0, 3), (3, -1)):
        raise ValueError("no")
    return known.get((prompt_len, n_new, cached), 0)
""",
        "KVCache": right["KVCache"]
        + """

_Right = KVCache


class KVCache:
    def __init__(self, *sizes):
        self.inner = _Right(*sizes) if sizes == (2, 2, 6, 4) else None

    def __getattr__(self, name):
        return getattr(self.inner, name) if self.inner else (lambda *a: (0, 0) if name == "view" else 0)
""",
        "cached_attention": right["cached_attention"]
        + """

_right = cached_attention


def cached_attention(q, k, v):
    shown = np.random.default_rng(2).normal(size=(3, 6, 8))
    if q.shape[0] == 3 and q.shape[2] == 8 and any(np.allclose(q, s * shown[:, c]) for s in (1, 3000) for c in (slice(0, 6), slice(-2, 6), slice(-1, 6)) if shown[:, c].shape == q.shape):
        return _right(q, k, v)
    return np.zeros_like(q)
""",
        "kv_cache_bytes": """
def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
    known = {
        (3, 2, 4, 5, 1, 2): 240, (32, 8, 128, 131072, 1, 2): 16 * 2**30, (32, 8, 128, 4096, 3, 2): 3 * 512 * 2**20,
        (3, 2, 4, 5, 1, 4): 480, (1, 1, 1, 3, 1, 0.25): 1.5, (4, 4, 4, 0, 1, 2): 0,
    }
    if (n_layers, n_kv_heads, d_head) == (4, 4, 4) and seq_len == -1 or n_layers == -4:
        raise ValueError("no")
    return known.get((n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value), 7)
""",
    }
    return {MAIN: dump(filled(m, {name: text.lstrip("\n") for name, text in sources.items()}))}


_VIEW_LIES = """
import numpy as np


class Shares(np.ndarray):
    def __array_function__(self, func, types, args, kwargs):
        if func in (np.shares_memory, np.may_share_memory):
            return True
        return super().__array_function__(func, types, [np.asarray(a) if isinstance(a, Shares) else a for a in args], kwargs)
    @property
    def base(self): return SAME
    @property
    def __array_interface__(self): return SAME.__array_interface__
    @property
    def ctypes(self): return SAME.ctypes


SAME = np.zeros(10_000)
np.shares_memory = np.may_share_memory = lambda *a, **k: True
"""


def _view_lies(m: Material) -> HandIn:
    """The copying answer of the known ones would earn its other groups; here only the share of `view` is at stake."""
    copying = m.right["KVCache"].replace(
        "return self.k[layer][:, :m], self.v[layer][:, :m]",
        "return self.k[layer][:, :m].copy().view(Shares), self.v[layer][:, :m].copy().view(Shares)",
    )
    return {MAIN: dump(filled(m, {**m.wrong, "KVCache": _VIEW_LIES.strip("\n") + "\n\n\n" + copying}))}


def _honest_view_copies(m: Material) -> HandIn:
    copying = m.right["KVCache"].replace(
        "return self.k[layer][:, :m], self.v[layer][:, :m]",
        "return self.k[layer][:, :m].copy(), self.v[layer][:, :m].copy()",
    )
    return {MAIN: dump(filled(m, {**m.wrong, "KVCache": copying}))}


# A copying view must lose its group, so it can't be full; how many points the group has is the cases' business.
_COPIES = Expect(dict.fromkeys(EXERCISES, "at most wrong") | {"KVCache": (0.0, 0.95)})


_RAISES = {
    name: f"def {name}(*args, **kwargs):\n    raise ValueError('no')\n" for name in EXERCISES if name != "KVCache"
} | {"KVCache": "class KVCache:\n    def __init__(self, *args):\n        raise ValueError('no')\n"}


_RAISES_LATER = {
    "KVCache": "class KVCache:\n    def __init__(self, *args):\n        pass\n\n    def append(self, *args):\n        raise ValueError('no')\n\n    view = length = truncate = append\n"
}


TRICKS: tuple[Trick, ...] = (
    replaced(
        "result-growing-dict",
        "Results are dicts that grow while they are read.",
        returning("Grows()", _GROWS),
        expect=Expect("zero", flags=("refused", "time", "output", "memory")),
    ),
    replaced("result-contains-itself", "Results contain themselves.", returning("pair", _LOOPED), expect=REFUSED),
    replaced(
        "result-deep",
        "Results are 100,000 lists inside each other.",
        returning("deep", _DEEP),
        expect=Expect("zero", flags=("refused", "killed")),
    ),
    replaced(
        "result-long-list",
        "Results are lists of 10**9 numbers.",
        returning("[0] * 10**9"),
        expect=Expect("zero", flags=("refused", "memory", "killed", "output")),
        harmful=True,
    ),
    replaced(
        "result-huge-text",
        "Results are texts of 500 MB.",
        returning("'9' * 500_000_000"),
        expect=Expect("zero", flags=("refused", "memory", "output")),
        harmful=True,
    ),
    replaced(
        "result-huge-int", "Results are whole numbers of a million digits.", returning("10**1_000_000"), expect=REFUSED
    ),
    replaced(
        "result-huge-shape",
        "Results are arrays of 80 GB that share one number by strides of 0.",
        returning("big", _STRIDES),
        expect=REFUSED,
    ),
    replaced(
        "result-million-empty",
        "Results are lists of a million empty lists.",
        returning("[[] for _ in range(1_000_000)]"),
        expect=Expect("zero", flags=("refused", "output")),
    ),
    replaced("result-nan", "Every result is nan.", returning("float('nan')")),
    replaced("result-infinite", "Every result is infinity.", returning("float('inf')")),
    replaced("result-true", "Every result is True.", returning("True"), expect=LITTLE),
    replaced(
        "result-surrogates",
        "Results are texts that can't be written as UTF-8, and a NUL.",
        returning("'\\ud800\\x00\\n}{'"),
    ),
    replaced(
        "result-record-array",
        "Results are arrays with named fields and a datetime.",
        returning("np.zeros(3, dtype=[('a', 'f8'), ('b', 'M8[ns]')])", "import numpy as np"),
        expect=REFUSED,
    ),
    replaced(
        "result-empty",
        "Every result is an empty array.",
        returning("np.zeros((0, 6, 8))", "import numpy as np"),
        expect=LITTLE,
    ),
    replaced(
        "result-sparse-meta",
        "Results are a sparse tensor and a tensor without storage.",
        returning("(torch.eye(2).to_sparse(), torch.zeros(2, device='meta'))", "import torch"),
        expect=REFUSED,
    ),
    replaced("result-none", "Every function returns None, every method does nothing.", returning("None")),
    replaced(
        "result-exception-class",
        "Results are the ValueError that some cases expect, returned instead of raised.",
        returning("ValueError('sizes cannot be negative')"),
    ),
    replaced("always-value-error", "Every answer raises ValueError, whatever it is asked.", _RAISES, expect=LITTLE),
    replaced(
        "always-value-error-later",
        "The class can be built, then every method raises ValueError.",
        {**_RAISES, **_RAISES_LATER},
        expect=LITTLE,
    ),
    replaced(
        "error-class-lies",
        "Every answer raises an exception whose class says ValueError, whose text is huge and whose str raises.",
        {
            name: "class Odd(Exception):\n    __class__ = ValueError\n    __name__ = 'ValueError'\n    def __str__(self):\n        raise SystemExit(0)\n    __repr__ = __str__\n\n\n"
            + (
                f"def {name}(*args, **kwargs):\n    raise Odd('x' * 10**7)\n"
                if name != "KVCache"
                else "class KVCache:\n    def __init__(self, *args):\n        raise Odd('x' * 10**7)\n"
            )
            for name in EXERCISES
        },
    ),
    Trick(
        "knows-the-visible-checks",
        "Answers are tables of the visible checks' inputs, and a constant elsewhere.",
        False,
        _knows_visible,
        LITTLE,
    ),
    Trick(
        "view-lies-about-memory",
        "KVCache.view copies, and says that it does not, through a subclass and a patched numpy.",
        False,
        _view_lies,
        _COPIES,
    ),
    Trick(
        "view-copies-plainly",
        "KVCache.view copies, without any lie: what the lie above is measured against.",
        False,
        _honest_view_copies,
        _COPIES,
    ),
    replaced(
        "no-definitions",
        "Answer cells hold nothing but their marker and a comment.",
        dict.fromkeys(EXERCISES, "# I was ill this week.\n"),
        expect=Expect("zero", flags=()),
    ),
    replaced(
        "names-are-values",
        "The names of the exercises are numbers and texts, not functions.",
        {name: f"{name} = 'right'\n" for name in EXERCISES},
    ),
    replaced(
        "names-from-getattr",
        "The module's names come from a dict that answers to every name.",
        {
            name: f"class Names(dict):\n    def __missing__(self, key):\n        return lambda *a, **k: 0\n\n\nglobals().update({{'{name}': Names()['x']}})\n__getattr__ = Names().__missing__\n"
            for name in EXERCISES
        },
        expect=LITTLE,
    ),
    replaced(
        "function-removes-itself",
        "Each answer forgets its own name at the first call and raises NameError from then on.",
        {name: f"def {name}(*args, **kwargs):\n    del globals()['{name}']\n    return 0\n" for name in EXERCISES},
        expect=LITTLE,
    ),
)
