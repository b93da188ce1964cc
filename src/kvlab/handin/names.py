"""A static look at an answer: does it parse, what does it define, and which names does it take from other cells?

Only the answer cell is collected. A helper that stands in another cell is there in the notebook, and missing when the
answer is graded. Nothing is run here.
"""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

GIVEN = frozenset({"math", "np", "torch", "display", "get_ipython"})
"""Names that an answer finds there without importing them."""

_OWN_CODE = ("%%time", "%%capture")  # cell magics whose body is the answer's own code
_MODULE = frozenset({"__name__", "__doc__", "__builtins__", "__annotations__"})


@dataclass(frozen=True)
class Look:
    """What can be seen in an answer. `error` says why it can't be run at all, or is ""."""

    error: str = ""
    defines: frozenset[str] = frozenset()
    outside: list[str] = field(default_factory=list)  # names it uses and nobody gives it, sorted


def look(source: str) -> Look:
    """Look at the source of an answer cell, as a notebook would run it: IPython's magics count as Python."""
    source = source.lstrip("\ufeff")
    head, _, body = source.lstrip().partition("\n")
    if head.startswith("%%"):
        magic = head.split()[0]
        if magic not in _OWN_CODE:
            return Look(f"the cell magic {magic} stands on top, so the cell is not run as Python")
        source = body
    try:
        text, tree = _parse(source)
        table = symtable.symtable(text, "answer", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return Look(_sentence(error))
    defined = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    defined |= _made_global(table)
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
        return Look(defines=frozenset(defined))  # nobody knows what came along
    known = defined | GIVEN | _MODULE | set(dir(builtins)) | _tried(tree)
    return Look(defines=frozenset(defined), outside=sorted(set(_taken(table)) - known))


def _parse(source: str) -> tuple[str, ast.Module]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a backslash in a text is no news for a learner here
        try:
            return source, ast.parse(source)
        except SyntaxError:
            from IPython.core.inputtransformer2 import TransformerManager  # only for cells that need it: it is slow

            source = TransformerManager().transform_cell(source)
            return source, ast.parse(source)


def _sentence(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f"line {error.lineno}: {error.msg}"
    return "the cell can't be read as Python"


def _taken(table: symtable.SymbolTable) -> Iterator[str]:
    """Names that a scope and those inside it take from the module."""
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _taken(child)


def _made_global(table: symtable.SymbolTable) -> set[str]:
    """Names that functions make at module level with `global`."""
    found = set()
    for child in table.get_children():
        found |= {s.get_name() for s in child.get_symbols() if s.is_declared_global() and s.is_assigned()}
        found |= _made_global(child)
    return found


def _tried(tree: ast.Module) -> set[str]:
    """Names that are used where a NameError is caught."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(_catches(handler.type) for handler in node.handlers):
            inside = [item for statement in node.body for item in ast.walk(statement)]
            found |= {item.id for item in inside if isinstance(item, ast.Name)}
    return found


def _catches(kind: ast.expr | None) -> bool:
    if isinstance(kind, ast.Tuple):
        return any(_catches(item) for item in kind.elts)
    return kind is None or (isinstance(kind, ast.Name) and kind.id in {"NameError", "Exception", "BaseException"})
