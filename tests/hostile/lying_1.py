"""Cheats in what an answer returns: objects that lie, results without end, and answers that know the visible checks (1 of 2)."""

from __future__ import annotations

from hostile.lying_shared import REFUSED
from hostile.model import (
    EXERCISES,
    ZERO,
    Expect,
    Trick,
    replaced,
    returning,
)

_YES = """
class Yes:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __bool__(self): return True
    def __hash__(self): return 0
    def __getattr__(self, name): return Yes()
    def __call__(self, *args, **kwargs): return Yes()
    def __getitem__(self, key): return Yes()
    def __iter__(self): return iter((Yes(), Yes()))
    def __len__(self): return 2
    def __float__(self): return 1.0
    def __int__(self): return 1
    def __index__(self): return 1
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __sub__ = __rsub__ = __abs__ = __add__ = __radd__ = __mul__ = __rmul__ = lambda self, *other: Yes()
"""


# The same object, by answers that read the docstring: the errors that it asks for are raised.
_POLITE = {
    "positions_processed": _YES
    + """

def positions_processed(prompt_len, n_new, cached):
    if prompt_len < 1 or n_new < 0:
        raise ValueError
    return Yes()
""",
    "cached_attention": _YES
    + """

def cached_attention(q, k, v):
    if q.shape[1] > k.shape[1]:
        raise ValueError
    return Yes()
""",
    "kv_cache_bytes": _YES
    + """

def kv_cache_bytes(*args, **kwargs):
    if min(*args, *kwargs.values()) < 0:
        raise ValueError
    return Yes()
""",
}


_NUMPY = """
import numpy as np


class Liar(np.ndarray):
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs): return np.True_
    def __array_function__(self, func, types, args, kwargs): return np.True_
    def __eq__(self, other): return True
    def __iter__(self): return iter((liar(), liar()))
    def __reduce__(self): return (print, ("unpickled",))
    def tobytes(self, *a): return b""
    def tolist(self): return Yes()


class Yes:
    def __eq__(self, other): return True


def liar():
    return np.zeros((3, 6, 8)).view(Liar)
"""


_ARRAY = """
import numpy as np


class Array:
    dtype, ndim, nbytes, size = np.dtype("float64"), 3, 0, 0
    calls = 0
    @property
    def shape(self):
        Array.calls += 1
        return (3, 6, 8) if Array.calls % 2 else (2**40, 2**40)
    def __array__(self, dtype=None, copy=None):
        Array.calls += 1
        return np.full((3, 6, 8), Array.calls, dtype or float)
    @property
    def __array_interface__(self):
        return {"version": 3, "shape": (2**30,), "typestr": "<f8", "data": (4096, False)}
    def __iter__(self): return iter((Array(), Array()))
    def __eq__(self, other): return True
"""


_TORCH = """
import torch


class Liar(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return torch.tensor(True)
    def __eq__(self, other): return True
    def __iter__(self): return iter((self, self))
    def __reduce_ex__(self, protocol): return (print, ("unpickled",))
"""


_CLASS = """
class Lie:
    real = type
    @property
    def __class__(self): return int
    def __eq__(self, other): return True
    def __iter__(self): return iter((self, self))
    def __int__(self): return 1


class Many(int):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __repr__(self): return "1}"
    def __str__(self): return "1}, {"
    def __iter__(self): return iter((self, self))
    __hash__ = int.__hash__
"""


_META = """
class Meta(type):
    def __instancecheck__(cls, instance): return True
    def __subclasscheck__(cls, other): return True
    def __eq__(cls, other): return True
    def __hash__(cls): return hash(int)
    def __getattribute__(cls, name): return type.__getattribute__(int, name) if name == "__name__" else type.__getattribute__(cls, name)


class Int(metaclass=Meta):
    __slots__ = ()
    def __iter__(self): return iter((self, self))
    def __index__(self): return 1
"""


_PICKLE = """
class Bomb:
    def __reduce_ex__(self, protocol):
        return (exec, ("import os; open('unpickled-here', 'w').write('x'); os._exit(0)",))
    def __getstate__(self): return {"x": 1}
    def __copy__(self): raise SystemExit(0)
    def __deepcopy__(self, memo): raise SystemExit(0)
    def __iter__(self): return iter((self, self))
"""


_ENDLESS = """
class Endless(list):
    def __len__(self): return 2**62
    def __iter__(self):
        while True:
            yield 1
    def __getitem__(self, key): return 1


class Waits:
    def __len__(self):
        while True:
            pass
    __iter__ = __float__ = __index__ = __bool__ = __repr__ = __len__
"""


TRICKS: tuple[Trick, ...] = (
    replaced(
        "liar-equal", "Every result is an object that equals everything.", returning("Yes()", _YES), expect=REFUSED
    ),
    replaced(
        "liar-equal-with-errors",
        "Every result equals everything, but the errors that the docstrings ask for are raised.",
        _POLITE,
        expect=Expect(dict.fromkeys(EXERCISES, (0.0, 0.5)) | {"KVCache": "at most wrong"}, flags=("refused",)),
    ),
    replaced(
        "liar-numpy-subclass",
        "Results are arrays of a subclass that answers every comparison with True.",
        returning("liar()", _NUMPY),
        expect=REFUSED,
    ),
    replaced(
        "liar-array-protocol",
        "Results change their shape and values each time numpy asks, and one protocol points at wild memory.",
        returning("Array()", _ARRAY),
        expect=REFUSED,
    ),
    replaced(
        "liar-torch-function",
        "Results are tensors of a subclass that answers every operation with True.",
        returning("torch.zeros(3, 6, 8).as_subclass(Liar)", _TORCH),
        expect=REFUSED,
    ),
    replaced("liar-class", "Results say that their class is int.", returning("Lie()", _CLASS), expect=REFUSED),
    replaced(
        "liar-int-subclass",
        "Results are of a subclass of int that equals everything and prints as broken JSON.",
        returning("Many(1)", _CLASS),
        expect=ZERO,
    ),
    replaced(
        "liar-metaclass",
        "Results are of a class that counts as a subclass of everything.",
        returning("Int()", _META),
        expect=REFUSED,
    ),
    replaced(
        "result-pickle",
        "Results run code when they are unpickled or copied.",
        returning("Bomb()", _PICKLE),
        expect=REFUSED,
    ),
    replaced(
        "result-object-array",
        "Results are object arrays whose elements run code when pickled.",
        returning("np.array([Bomb(), Bomb()], dtype=object)", "import numpy as np\n" + _PICKLE),
        expect=REFUSED,
    ),
    replaced(
        "result-generator",
        "Results are generators without an end.",
        returning("(n for n in iter(int, 1))"),
        expect=REFUSED,
    ),
    replaced("result-function", "Results are functions.", returning("lambda *a, **k: True"), expect=REFUSED),
    replaced("result-module", "Results are modules.", returning("__import__('numpy')"), expect=REFUSED),
    replaced(
        "result-endless-list",
        "Results are lists whose length is 2**62 and whose end never comes.",
        returning("Endless()", _ENDLESS),
        expect=Expect("zero", flags=("refused", "time", "output", "memory")),
    ),
    replaced(
        "result-waits",
        "Asking the result for its length takes for ever.",
        returning("Waits()", _ENDLESS),
        expect=Expect("zero", flags=("refused", "time")),
    ),
)
