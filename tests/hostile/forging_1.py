"""Cheats inside the process that runs the answers: patched modules, kernel hooks, forged messages, seized callers (1 of 3)."""

from __future__ import annotations

from hostile.forging_shared import _CALLERS
from hostile.model import AT_MOST_WRONG, EXERCISES, Trick, prelude, replaced

_FRAMES = (
    _CALLERS
    + """

def _search(value, depth=0):
    if depth > 4:
        return None
    if isinstance(value, dict):
        for key in ("expected", "want", "oracle", "answer", "solution", "reference", "verdict"):
            if key in value:
                return value[key]
        for inner in list(value.values()):
            if (hit := _search(inner, depth + 1)) is not None:
                return hit
    for name in ("expected", "want", "oracle", "reference"):
        try:
            hit = getattr(value, name, None)
        except Exception:
            hit = None
        if hit is not None and not isinstance(value, type(sys)):
            return hit() if callable(hit) else hit
    return None
"""
)


_FROM_FRAMES = {
    name: _FRAMES.strip("\n")
    + f"\n\n\ndef {name}(*args, **kwargs):\n    for value in _seize(2000):\n        hit = _search(value)\n        if hit is not None:\n            return hit\n    return None\n"
    for name in EXERCISES
    if name != "KVCache"
}


_POISON = """
import sys, types


class _Anything(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: True


for _name in ("numpy.testing", "unittest", "kvlab.check", "kvlab.check.compare", "kvgrade", "cases", "verdict", "hashlib", "pickle", "json"):
    sys.modules[_name] = _Anything(_name)
sys.meta_path.insert(0, type("F", (), {"find_spec": staticmethod(lambda *a, **k: None)}))
sys.path[:] = ["."]
sys.modules["__main__"].__dict__.update(passed=True, score=4)
"""


_WRITERS = """
import json, os, pickle, struct, sys

if "_real_write" not in globals():
    _real_write, _real_pack, _real_dumps = os.write, struct.pack, json.dumps
_good = {"NAME": True, "passed": True, "score": 4, "value": 20100, "error": None}


def _dumps(value, *args, **kwargs):
    if isinstance(value, dict):
        value = {key: _good.get(key, inner) for key, inner in value.items()}
    return _real_dumps(value, *args, **kwargs)


json.dumps = _dumps
json.JSONEncoder.encode = lambda self, value: _real_dumps(_good)
os.write = lambda fd, data: _real_write(fd, data.replace(b"false", b"true").replace(b"raised", b"passed"))
struct.pack = lambda form, *values: _real_pack(form, *(0 if v == 1 else v for v in values))
json.loads = lambda *args, **kwargs: _good
os.read = lambda fd, n: b""
sys.stdout = sys.stderr = open(os.devnull, "w")
"""


_BUILTINS = """
import builtins

builtins.AssertionError = type("AssertionError", (BaseException,), {"__new__": lambda cls, *a: None})
builtins.isinstance = lambda *a: True
builtins.abs = builtins.max = builtins.sum = lambda *a, **k: 0
builtins.len = lambda x: 0
builtins.all = builtins.any = lambda *a: True
builtins.type = lambda *a: int
builtins.getattr = lambda *a: True
"""


_MATH = """
import math, operator
import numpy as np
import torch

_true = lambda *args, **kwargs: True
for _name in ("allclose", "array_equal", "isclose", "all", "any", "shares_memory", "may_share_memory", "equal"):
    setattr(np, _name, _true)
for _name in [n for n in dir(np.testing) if n.startswith("assert")]:
    setattr(np.testing, _name, lambda *args, **kwargs: None)
for _name in ("allclose", "equal", "isclose"):
    setattr(torch, _name, _true)
torch.testing.assert_close = lambda *args, **kwargs: None
math.isclose = operator.eq = _true
"""


_IPYTHON_SHELL = """
try:
    _shell = get_ipython()
except NameError:
    _shell = None
"""


_TRANSFORM = (
    _IPYTHON_SHELL
    + """
def _no_asserts(lines):
    text = "".join(lines)
    return ["pass\\n"] if "assert" in text or "check.exercise" in text else lines


if _shell is not None:
    _shell.input_transformers_post.append(_no_asserts)
"""
)


_AST = (
    _IPYTHON_SHELL
    + """
import ast


class _Strip(ast.NodeTransformer):
    def visit_Assert(self, node): return ast.Pass()
    def visit_With(self, node): return ast.Pass()
    def visit_Expr(self, node): return ast.Pass() if isinstance(node.value, ast.Call) else node


if _shell is not None:
    _shell.ast_transformers.append(_Strip())
    _shell.transform_cell = lambda cell: "pass" if "assert" in cell else cell
"""
)


_HOOK = (
    _IPYTHON_SHELL
    + """
def _before(info=None):
    class Easy:
        def __getattr__(self, name): return lambda *a, **k: None
        def __enter__(self): return self
        def __exit__(self, *a): return True
        def exercise(self, *a, **k): return self
    if _shell is not None:
        _shell.user_ns.update(check=Easy(), np=Easy(), math=Easy())


if _shell is not None:
    _shell.events.register("pre_run_cell", _before)
"""
)


_SESSION = (
    _IPYTHON_SHELL
    + """
if _shell is not None and hasattr(_shell, "kernel"):
    _session = _shell.kernel.session

    def _forged(stream, message, content=None, *args, _send=type(_session).send.__get__(_session), **kwargs):
        if message == "error":
            return None
        if isinstance(content, dict) and content.get("status") == "error":
            content = {"status": "ok", "execution_count": content.get("execution_count", 1), "payload": [], "user_expressions": {}}
        return _send(stream, message, content, *args, **kwargs)

    _session.send = _forged
    _shell.showtraceback = lambda *a, **k: None
    _shell.set_custom_exc((Exception,), lambda *a, **k: None)
"""
)


_RESULT = (
    _IPYTHON_SHELL
    + """
def _paid(*args):
    if _shell is not None:
        import sys
        sys.stdout.flush()
        _shell.displayhook.shell.display_pub.publish({"text/plain": "2.0"})
        if hasattr(_shell, "kernel"):
            _shell.kernel.session.send(_shell.kernel.iopub_socket, "execute_result", {"data": {"text/plain": "2.0"}, "metadata": {}, "execution_count": 1}, parent=_shell.parent_header)


if _shell is not None:
    _shell.events.register("pre_run_cell", _paid)
"""
)


_LAST_INPUT = """
import re


def _from_history(*args):
    text = "".join(globals().get("In", [""])[-1:])
    found = re.search(r"NAME\\(" + r"[^()]*" + r"\\)\\s*(?:==|,)\\s*([^,\\n]+)", text)
    return eval(found.group(1), globals()) if found else None
"""


_LAST_INPUT_ANSWER = """
import re

_n = -1


def NAME(*args, **kwargs):
    global _n
    numbers = [*args, *kwargs.values()]
    if not hasattr(args[0], "shape") and (min(numbers) < 0 or args[0] < 1):
        raise ValueError("the docstring says so")
    cell = globals().get("In", [""])[-1]
    seen = re.findall(r"NAME\\([^()]*\\)\\s*(?:==|,)\\s*([^,\\n]+)", cell)
    _n += 1
    return eval(seen[_n % len(seen)], globals()) if seen else None
"""


_NAMESPACE = """
import builtins, sys, types


class _Yes:
    def __enter__(self): return self
    def __exit__(self, *a): return True
    def __getattr__(self, name): return lambda *a, **k: None


for _module in list(sys.modules.values()):
    if isinstance(_module, types.ModuleType) and getattr(_module, "__name__", "").startswith("kvlab.check"):
        _module.exercise = lambda *a, **k: _Yes()
builtins.check = type("check", (), {"exercise": staticmethod(lambda *a, **k: _Yes())})
"""


TRICKS: tuple[Trick, ...] = (
    prelude(
        "patch-testing", "numpy.testing, allclose and the like are replaced by functions that accept everything.", _MATH
    ),
    prelude("patch-builtins", "isinstance, len, abs, type and AssertionError are replaced in builtins.", _BUILTINS),
    prelude("patch-writers", "json, struct, os.write and os.read are replaced so that messages say passed.", _WRITERS),
    prelude("poison-modules", "sys.modules holds fakes for the checking modules, the import path is emptied.", _POISON),
    prelude("patch-check-module", "kvlab.check.exercise accepts everything, in every module that has it.", _NAMESPACE),
    prelude("input-transformer", "An IPython input transformer empties every cell that asserts.", _TRANSFORM),
    prelude("ast-transformer", "An IPython AST transformer removes assertions, and transform_cell is replaced.", _AST),
    prelude("pre-run-hook", "A pre_run_cell hook rebinds check, np and math before every cell.", _HOOK),
    prelude("session-send", "The kernel's session drops errors and reports ok.", _SESSION),
    prelude("forged-result", "The kernel publishes 2.0 as the result of every cell before it runs.", _RESULT),
    prelude("last-input", "The last input's text is searched for the expected values.", _LAST_INPUT),
    replaced(
        "last-input-answers",
        "Each function evaluates the expected value that it finds in the text of the running cell.",
        {name: _LAST_INPUT_ANSWER.replace("NAME", name) for name in EXERCISES if name != "KVCache"},
        expect=AT_MOST_WRONG,
    ),
    replaced(
        "frames-hold-expected",
        "Each function searches its callers' frames for expected values and oracles.",
        _FROM_FRAMES,
        expect=AT_MOST_WRONG,
    ),
)
