"""Cheats that read: solutions, hand-ins of others, the gradebook, secrets of the host, and closed functions (2 of 2)."""

from __future__ import annotations

from hostile.model import EXERCISES, Expect, Range, Trick, Word, replaced


def _only(**marks: Word | Range) -> Expect:
    """Nothing for the exercises named, at most the wrong answer's marks for the others."""
    every: dict[str, Word | Range] = dict.fromkeys(EXERCISES, "at most wrong")
    return Expect(every | marks)


_TIMING = """
import time

_seen = []


def positions_processed(prompt_len, n_new, cached):
    _seen.append((time.perf_counter(), prompt_len, n_new, cached))
    if len(_seen) == 1:
        time.sleep(0.3)
    gaps = [b[0] - a[0] for a, b in zip(_seen, _seen[1:])]
    return 0 if not gaps or min(gaps) > 0.01 else int(1 / min(gaps))
"""


_CALL_COUNT = {
    name: f"_count = 0\n\n\ndef {name}(*args, **kwargs):\n    global _count\n    _count += 1\n    if _count % 7 in (5, 6):\n        raise ValueError('probably an error case')\n    return 0\n"
    for name in EXERCISES
    if name != "KVCache"
}


# Ways to a closed function. In each, the exercise's whole work is done by the course's own code.
_IMPORT = {
    "positions_processed": "from kvlab.arithmetic import positions_processed\n",
    "cached_attention": "import torch\nfrom kvlab import attention\n\n\ndef cached_attention(q, k, v):\n    return attention.cached_attention(*map(torch.as_tensor, (q, k, v))).numpy()\n",
    "kv_cache_bytes": "from kvlab.arithmetic import kv_cache_bytes\n",
    "KVCache": "import torch\nfrom types import SimpleNamespace\nfrom kvlab.cache import PreallocatedCache\n\n\nclass KVCache:\n    def __init__(self, n_layers, n_kv_heads, max_len, d_head):\n        config = SimpleNamespace(n_layers=n_layers, n_kv_heads=n_kv_heads, d_head=d_head, max_len=max_len)\n        self.n_layers, self.shape = n_layers, (n_kv_heads, d_head)\n        self.inner = PreallocatedCache(config, max_len, dtype=torch.float64)\n\n    def _check(self, layer):\n        if not 0 <= layer < self.n_layers:\n            raise ValueError('no such layer')\n\n    def append(self, layer, k, v):\n        self._check(layer)\n        if k.ndim != 3 or k.shape != v.shape or (k.shape[0], k.shape[2]) != self.shape:\n            raise ValueError('wrong shape')\n        self.inner.update(layer, torch.as_tensor(k)[None], torch.as_tensor(v)[None])\n\n    def view(self, layer):\n        self._check(layer)\n        return tuple(part[0].numpy() for part in self.inner.view(layer))\n\n    def length(self, layer):\n        return self.view(layer)[0].shape[1]\n\n    def truncate(self, length):\n        if not 0 <= length <= max(map(self.length, range(self.n_layers))):\n            raise ValueError('cannot keep that many')\n        self.inner._lengths = [min(n, length) for n in self.inner._lengths]\n",
}


_ARITHMETIC = ("positions_processed", "kv_cache_bytes")


def _arithmetic(body: str) -> dict[str, str]:
    """The two arithmetic exercises by one piece of code: NAME is the exercise, MODULE where its kernel lives."""
    where = {"positions_processed": "kvlab.arithmetic.work", "kv_cache_bytes": "kvlab.arithmetic.memory"}
    return {name: body.replace("NAME", name).replace("MODULE", where[name]) for name in _ARITHMETIC}


_ARITHMETIC_ZERO = _only(positions_processed="zero", kv_cache_bytes="zero")


_ATTENTION_ZERO = _only(cached_attention="zero")


_SOURCE = """
import importlib.util

_spec = importlib.util.find_spec("MODULE")
_names = {"__name__": "kvlab.arithmetic.copy", "__package__": "kvlab.arithmetic", "__file__": "x"}
exec(open(_spec.origin).read(), _names)
NAME = _names["NAME"]
"""


_INSPECT = """
import inspect, importlib

_module = importlib.import_module("MODULE")
_names = dict(vars(_module))
exec("from __future__ import annotations\\n" + inspect.getsource(_module.NAME), _names)
NAME = _names["NAME"]
"""


_CODE_OBJECT = """
import functools, importlib, types

_kernel = getattr(importlib.import_module("MODULE"), "NAME")
_kernel = getattr(_kernel, "__wrapped__", _kernel)
NAME = functools.partial(types.FunctionType(_kernel.__code__, _kernel.__globals__, "copy", _kernel.__defaults__, _kernel.__closure__))
"""


_PYC = """
import glob, importlib.util, marshal, types

_spec = importlib.util.find_spec("MODULE")
_found = None
for _path in glob.glob(importlib.util.cache_from_source(_spec.origin).replace(".cpython", "*.cpython")) + [importlib.util.cache_from_source(_spec.origin)]:
    _code = marshal.loads(open(_path, "rb").read()[16:])
    _names = {"__name__": "kvlab.arithmetic.copy", "__package__": "kvlab.arithmetic"}
    exec(_code, _names)
    _found = _names["NAME"]
NAME = _found
"""


_SEARCH = """
import gc, types
import kvlab.arithmetic

_found = [f for f in gc.get_objects() if isinstance(f, types.FunctionType) and f.__name__ == "NAME" and f.__module__.startswith("kvlab")]


def NAME(*args, **kwargs):
    for kernel in _found:
        try:
            return types.FunctionType(kernel.__code__.replace(), kernel.__globals__, None, kernel.__defaults__)(*args, **kwargs)
        except ValueError:
            raise
        except Exception:
            continue
    return None
"""


_SUBPROCESS = """
import json, subprocess, sys


def NAME(*args, **kwargs):
    program = "import json, sys; from MODULE import NAME as f; a, k = json.loads(sys.argv[1]); print(json.dumps(f(*a, **k)))"
    done = subprocess.run([sys.executable, "-c", program, json.dumps([args, kwargs])], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise ValueError(done.stderr[-200:])
    return json.loads(done.stdout)
"""


_RELOAD = """
import importlib, sys

for _name in [n for n in sys.modules if n.startswith("kvlab")]:
    del sys.modules[_name]
NAME = getattr(importlib.import_module("MODULE"), "NAME")
"""


_THREADED = """
import threading
from MODULE import NAME as _kernel


def NAME(*args, **kwargs):
    box = []
    worker = threading.Thread(target=lambda: box.append(_kernel(*args, **kwargs)))
    worker.start()
    worker.join()
    return box[0] if box else None
"""


_SCRATCH = """
from kvlab import scratch


def cached_attention(q, k, v):
    if q.shape[1] > k.shape[1]:
        raise ValueError("more queries than keys")
    out = scratch.attention(q, k, v, mask=True)
    return out.reshape(q.shape[1], q.shape[0], q.shape[2]).swapaxes(0, 1)
"""


_MODEL = """
import torch
from kvlab import model


def cached_attention(q, k, v):
    if q.shape[1] > k.shape[1]:
        raise ValueError("more queries than keys")
    q, k, v = (torch.tensor(x)[None] for x in (q, k, v))
    return model.attend(q.requires_grad_(True), k, v)[0].detach().numpy()
"""


_FUSED = """
import torch


def cached_attention(q, k, v):
    if q.shape[1] > k.shape[1]:
        raise ValueError("more queries than keys")
    q, k, v = map(torch.as_tensor, (q, k, v))
    mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
    return FUSED(q, k, v, attn_mask=mask).numpy()
"""


TRICKS: tuple[Trick, ...] = (
    replaced(
        "timing-of-inputs",
        "Answers are guessed from the time between calls.",
        {"positions_processed": _TIMING},
        expect=_only(positions_processed=(0.0, 0.5)),
    ),
    replaced(
        "counts-the-calls",
        "Every sixth and seventh call raises, in the hope of error cases.",
        _CALL_COUNT,
        expect=Expect(dict.fromkeys(EXERCISES, (0.0, 0.75)) | {"KVCache": "at most wrong"}),
    ),
    replaced("closed-import", "Closed functions and classes are imported and used.", _IMPORT, expect=Expect("zero")),
    replaced(
        "closed-importlib",
        "Closed functions are reached by importlib.",
        _arithmetic("import importlib\n\nNAME = getattr(importlib.import_module('MODULE'), 'NAME')\n"),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-reloaded",
        "kvlab is thrown out of sys.modules and imported again.",
        _arithmetic(_RELOAD),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-source", "The file of a closed function is read and run.", _arithmetic(_SOURCE), expect=_ARITHMETIC_ZERO
    ),
    replaced(
        "closed-inspect",
        "The text of a closed function is fetched by inspect and run.",
        _arithmetic(_INSPECT),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-bytecode",
        "The compiled file of a closed function is read and run.",
        _arithmetic(_PYC),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-code-object",
        "A closed function is rebuilt from __code__, __wrapped__ and partial.",
        _arithmetic(_CODE_OBJECT),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-gc",
        "A closed function is found among all objects of the process.",
        _arithmetic(_SEARCH),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-thread",
        "A closed function is called in another thread.",
        _arithmetic(_THREADED),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-subprocess",
        "Closed functions are called in a new Python.",
        _arithmetic(_SUBPROCESS),
        expect=_ARITHMETIC_ZERO,
    ),
    replaced(
        "closed-scratch",
        "kvlab.scratch.attention, which is not on the closed list, does the work.",
        {"cached_attention": _SCRATCH},
        expect=_ATTENTION_ZERO,
    ),
    replaced(
        "closed-model",
        "kvlab.model's attention does the work, on the path that training takes.",
        {"cached_attention": _MODEL},
        expect=_ATTENTION_ZERO,
    ),
    replaced(
        "closed-torch",
        "torch's fused attention does the work.",
        {"cached_attention": _FUSED.replace("FUSED", "torch.nn.functional.scaled_dot_product_attention")},
        expect=_ATTENTION_ZERO,
    ),
    replaced(
        "closed-torch-aliases",
        "torch's fused attention does the work, by its C name.",
        {"cached_attention": _FUSED.replace("FUSED", "torch._C._nn.scaled_dot_product_attention")},
        expect=_ATTENTION_ZERO,
    ),
    replaced(
        "closed-torch-operator",
        "torch's fused attention does the work, as an operator.",
        {"cached_attention": _FUSED.replace("FUSED", "torch.ops.aten.scaled_dot_product_attention")},
        expect=_ATTENTION_ZERO,
    ),
)
