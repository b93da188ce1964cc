"""The lines of a check cell as text: which one was running, and the rule that it tests."""

from __future__ import annotations

import ast
import linecache
import textwrap
from types import TracebackType

_METHODS = {"equal", "close", "true", "raises", "unchanged", "shares_memory"}  # of kvlab.check.Exercise
_LONGEST = 300


def line_number(trace: TracebackType | None, check_file: str) -> int | None:
    """The line of the check cell that was running; of a helper function in that cell only if nothing else is known."""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == check_file:
            return trace.tb_lineno
        trace = trace.tb_next
    return None


def statement_text(check_file: str, line: int) -> str:
    """The statement at this line without its `why`, on one line; "" when the cell's text isn't known."""
    found = next((node for node in _statements(check_file) if _holds(node, line)), None)
    if found is None:
        return ""
    call = _check_call(found)
    if call is not None and _why(call):
        call.args = call.args[:-1]
        call.keywords = []
    text = " ".join(ast.unparse(found).split())
    return textwrap.shorten(text, _LONGEST, placeholder=" …")


def rule(check_file: str, line: int) -> str:
    """The `why` of the check at this line. Of the next one where the line only prepares it; "" when there is none."""
    for node in _statements(check_file):
        call = _check_call(node)
        if call is not None and (node.end_lineno or 0) >= line:
            return _why(call)
    return ""


def _statements(check_file: str) -> list[ast.stmt]:
    """The simple statements of the `with` block, in order."""
    try:
        tree = ast.parse("".join(linecache.getlines(check_file)))
    except SyntaxError:  # magics: the cell's text isn't what ran
        return []
    return [node for block in tree.body if isinstance(block, ast.With) for node in block.body]


def _holds(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _check_call(node: ast.stmt) -> ast.Call | None:
    """The call when a statement is a line such as `t.equal(…, "why")`."""
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        return call
    return None


def _why(call: ast.Call) -> str:
    last = call.args[-1] if call.args else None
    return last.value if isinstance(last, ast.Constant) and isinstance(last.value, str) else ""
