"""Honest hand-ins in odd clothes. The answers are right, so they must get full marks, unless the text says otherwise (3 of 4)."""

from __future__ import annotations

from textwrap import dedent

from hostile.model import (
    FULL,
    Expect,
    Material,
    Notebook,
    Trick,
    answer,
    marked,
)
from hostile.oddities_shared import _above, _odd, _sources, _styles


def _below(name: str, what: str, code: str, expect: Expect = FULL) -> Trick:
    """Right answers with `code` below each of them."""
    text = dedent(code).strip("\n")

    def edit(notebook: Notebook, m: Material) -> None:
        for exercise, source in m.right.items():
            answer(notebook, exercise)["source"] = marked(exercise, f"{source}\n\n{text}\n".replace("NAME", exercise))

    return _odd(name, what, edit, expect=expect)


def _with_magic_on_top(exercise: str, source: str) -> str:
    return "%%time\n" + source


_DEMO_BELOW = """
if __name__ == "__main__":
    print("demo of NAME", NAME)
"""


_FIGURE = """
import matplotlib.pyplot as plt
import numpy as np

figure, axes = plt.subplots()
axes.plot(np.arange(10) ** 2)
axes.set_title("NAME")
plt.show()
"""


_KITCHEN_SINK = """
import random
import numpy as np
import torch

random.seed(3)
np.random.seed(3)
torch.manual_seed(3)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(2)
torch.set_grad_enabled(False)
np.seterr(all="raise")
np.set_printoptions(precision=1, suppress=True)
"""


_PRINTS_INSIDE = {
    "positions_processed": """
    import sys


    def positions_processed(prompt_len: int, n_new: int, cached: bool) -> int:
        print("called with", prompt_len, n_new, cached, flush=True)
        print("warning!", file=sys.stderr)
        if prompt_len < 1 or n_new < 0:
            raise ValueError("no")
        total = 0
        for step in range(n_new):
            total += 1 if cached and step else prompt_len + step
        print("x" * 20_000)
        return total
    """,
}


_WARNS = """
import functools
import logging
import warnings


def _wary(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        warnings.warn("I am not sure about this", stacklevel=1)
        logging.getLogger("NAME").warning("called")
        return function(*args, **kwargs)

    return wrapped


if isinstance(NAME, type):
    NAME.__init__ = _wary(NAME.__init__)
else:
    NAME = _wary(NAME)
"""


_HELPERS = {
    "kv_cache_bytes": '''
    from __future__ import annotations

    from dataclasses import dataclass


    @dataclass(frozen=True)
    class Größe:
        """Namen dürfen Umlaute haben."""

        werte: tuple[float, ...]

        def produkt(self) -> float:
            π = 1
            for faktor in self.werte:
                π *= faktor
            return π


    def kv_cache_bytes(n_layers: Tensor["L"], n_kv_heads: NotImported, d_head, seq_len, batch=1, bytes_per_value=2) -> Annotated[float, "bytes"]:
        """Bytes \U0001f600 of K and V."""  # \U0001f680 says it all
        if any(x < 0 for x in (n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value)):
            raise ValueError("negative sizes \u2014 no \U0001f600")
        return Größe((2, n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value)).produkt()
    ''',
    "positions_processed": """
    def positions_processed(prompt_len: "SomeType", n_new: "torch.Missing", cached: "list[Nothing]") -> "Whatever":
        if prompt_len < 1 or n_new < 0:
            raise ValueError
        return sum((prompt_len + i if not cached or i == 0 else 1) for i in range(n_new))
    """,
}


_OWN_ERRORS = {
    "positions_processed": """
    class TooSmall(ValueError):
        def __init__(self, name, value):
            super().__init__(f"{name} = {value}")


    def positions_processed(prompt_len, n_new, cached):
        if prompt_len < 1:
            raise TooSmall("prompt_len", prompt_len)
        if n_new < 0:
            raise TooSmall("n_new", n_new) from KeyError("n_new")
        return (prompt_len + n_new - 1 if cached else n_new * prompt_len + n_new * (n_new - 1) // 2) if n_new else 0
    """,
}


_SCALARS = {
    "positions_processed": """
    import functools

    import numpy as np


    @functools.lru_cache(maxsize=None)
    def positions_processed(prompt_len, n_new, cached):
        if prompt_len < 1 or n_new < 0:
            raise ValueError("no")
        return np.int64(0 if n_new == 0 else prompt_len + n_new - 1 if cached else n_new * prompt_len + n_new * (n_new - 1) // 2)
    """,
    "kv_cache_bytes": """
    import torch


    def kv_cache_bytes(n_layers, n_kv_heads, d_head, seq_len, batch=1, bytes_per_value=2):
        factors = torch.tensor([2, n_layers, n_kv_heads, d_head, seq_len, batch, bytes_per_value], dtype=torch.float64)
        if (factors < 0).any():
            raise ValueError("no")
        return factors.prod()
    """,
}


_AWAIT = """
import asyncio

await asyncio.sleep(0)
"""


_FAILS_BELOW = """
print("trying it out")
assert 1 == 2, "my own test is wrong, the answer above is right"
"""


_PARTS = """
from IPython.display import HTML, display

display(HTML("<b>NAME</b>"))
try:
    get_ipython().run_line_magic("matplotlib", "inline")
except NameError:
    pass
get_ipython().system("true")
[1, 2, 3]
"""


_PROGRESS = """
from tqdm.auto import tqdm

for _ in tqdm(range(3), desc="NAME"):
    pass
"""


TRICKS: tuple[Trick, ...] = (
    _odd("cell-magic-time", "%%time stands on top of each answer cell.", _sources(_with_magic_on_top)),
    _odd(
        "cell-magic-capture",
        "%%capture stands on top of each answer cell.",
        _sources(lambda _, source: "%%capture\n" + source),
    ),
    _above("ipython-calls", "get_ipython(), display() and a bare value.", _PARTS),
    _above("progress-bar", "A progress bar on stderr.", _PROGRESS),
    _above("await-at-top", "await outside a function, which notebooks allow.", _AWAIT),
    _above(
        "settings-left-on",
        "Seeds, numpy's error mode, torch's default dtype: each in its own answer cell.",
        "import numpy as np\nimport torch\n\nnp.random.seed(1)\ntorch.manual_seed(1)\ntorch.set_default_dtype(torch.float64)\nnp.set_printoptions(precision=1)",
    ),
    _styles(
        "settings-of-another",
        "The first answer makes numpy raise on underflow and changes seeds and dtypes; a later right answer underflows.",
        {
            "positions_processed": _KITCHEN_SINK
            + "\n\ndef positions_processed(prompt_len, n_new, cached):\n    if prompt_len < 1 or n_new < 0:\n        raise ValueError\n    return sum(prompt_len + i if not cached or i == 0 else 1 for i in range(n_new))\n"
        },
    ),
    _above(
        "prints-a-megabyte",
        "A megabyte of output while the answer is defined.",
        'print("x" * 79 + "\\n", end="") or print(("y" * 79 + "\\n") * 12_800)',
    ),
    _below("warns-inside", "Every function warns and logs at each call.", _WARNS),
    _styles("prints-inside", "The function prints, and warns, at each call.", _PRINTS_INSIDE),
    _below("demo-below", "Demonstration code under if __name__.", _DEMO_BELOW),
    _below(
        "demo-fails-below",
        "The learner's own test below the answer is wrong and raises; the answer is defined.",
        _FAILS_BELOW,
    ),
    _below(
        "exits-below", "sys.exit() below the answer, as in a script; the answer is defined.", "import sys\n\nsys.exit()"
    ),
    _below("figure", "A figure is drawn in the answer cell.", _FIGURE),
    _styles(
        "helpers-and-hints",
        "Helpers, from __future__ import annotations, hints with names that nobody imported, umlauts, signs beyond the 16-bit range.",
        _HELPERS,
    ),
    _styles("own-error-class", "The error raised is a subclass of ValueError with a cause.", _OWN_ERRORS),
    _styles(
        "numpy-and-torch-scalars",
        "Results are a numpy int64 and a 0-d tensor; a cache decorates one function.",
        _SCALARS,
    ),
)
