"""What a page may tell of an answer's behaviour: sentences from a closed list, and never a text that comes from the jail.

An answer sees the held-out inputs, and would hand them out in any text that it may choose: an error's message, the name
of a class, an exit status. So an error is told by its builtin class and its line, in the grader's own copy of the cell.
Its message is told when it is one of Python's, numpy's or torch's usual ones, without numbers, and with those names
only that stand in the told line or belong to the exercise.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Collection
from typing import Any

from kvlab.check.closed import closed_text
from kvlab.check.compare import to_array

from .inside.wire import Opaque
from .texts import clean

MOST_LINES = 500  # no line beyond is told: which of n lines fails tells log2(n) bits
_ERRORS = frozenset(
    name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)
)
_LIBRARY_TYPES = """
    NoneType function method builtin_function_or_method module generator coroutine ellipsis dict_keys dict_values
    dict_items range_iterator list_iterator array ndarray numpy.ndarray Tensor torch.Tensor Generator
    bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128
    numpy.int64 numpy.float32 numpy.float64
"""
_TYPES = {name for name, kind in vars(builtins).items() if isinstance(kind, type)} | set(_LIBRARY_TYPES.split())
_SIGNS = {"+", "-", "*", "/", "//", "%", "@", "**", "<<", ">>", "&", "|", "^", "<", "<=", ">", ">=", "~"}
_SIGNS |= {f"{sign}=" for sign in ("+", "-", "*", "/", "//", "%", "@", "**")} | {"** or pow()", "divmod()"}
_SLOTS = {"name": r"[\w.<>]+", "type": r"[\w.]+", "sign": r"\S+|\*\* or pow\(\)", "any": r".*?"}
_MESSAGES = """
    name '{name}' is not defined
    cannot access local variable '{name}' where it is not associated with a value
    cannot access free variable '{name}' where it is not associated with a value in enclosing scope
    No module named '{name}'
    cannot import name '{name}' from '{name}' ({any})
    '{type}' object has no attribute '{name}'
    module '{name}' has no attribute '{name}'
    '{type}' object is not subscriptable
    '{type}' object is not callable
    '{type}' object is not iterable
    '{type}' object does not support item assignment
    '{type}' object cannot be interpreted as an integer
    cannot unpack non-iterable {type} object
    unsupported operand type(s) for {sign}: '{type}' and '{type}'
    '{sign}' not supported between instances of '{type}' and '{type}'
    bad operand type for unary {sign}: '{type}'
    can't multiply sequence by non-int of type '{type}'
    can only concatenate {type} (not "{type}") to {type}
    object of type '{type}' has no len()
    unhashable type: '{type}'
    list indices must be integers or slices, not {type}
    tuple indices must be integers or slices, not {type}
    list index out of range
    tuple index out of range
    string index out of range
    list assignment index out of range
    pop from empty list
    max() arg is an empty sequence
    min() arg is an empty sequence
    max() iterable argument is empty
    min() iterable argument is empty
    division by zero
    float division by zero
    float floor division by zero
    integer division or modulo by zero
    integer modulo by zero
    math domain error
    math range error
    cannot convert float NaN to integer
    cannot convert float infinity to integer
    maximum recursion depth exceeded
    maximum recursion depth exceeded {any}
    too many values to unpack (expected {any})
    not enough values to unpack (expected {any}, got {any})
    {name}() missing {any} required positional argument: '{name}'
    {name}() missing {any} required positional arguments: {any}
    {name}() missing {any} required keyword-only argument: '{name}'
    {name}() missing {any} required keyword-only arguments: {any}
    {name}() takes {any} positional argument but {any} were given
    {name}() takes {any} positional arguments but {any} given
    {name}() takes no arguments
    {name}() got an unexpected keyword argument '{name}'
    {name}() got multiple values for argument '{name}'
    operands could not be broadcast together with shapes {any}
    operands could not be broadcast together with remapped shapes {any}
    could not broadcast input array from shape {any} into shape {any}
    shapes {any} not aligned: {any}
    matmul: Input operand {any} has a mismatch in its core dimension {any}
    matmul: Input operand {any} does not have enough dimensions {any}
    cannot reshape array of size {any} into shape {any}
    index {any} is out of bounds for axis {any} with size {any}
    axis {any} is out of bounds for array of dimension {any}
    axes don't match array
    too many indices for array: {any}
    all the input array dimensions except for the concatenation axis must match exactly, {any}
    The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()
    setting an array element with a sequence. {any}
    only integer scalar arrays can be converted to a scalar index
    only length-1 arrays can be converted to Python scalars
    only 0-dimensional arrays can be converted to Python scalars
    arrays used as indices must be of integer (or boolean) type
    Unable to allocate {any}
    The size of tensor a ({any}) must match the size of tensor b ({any}) at non-singleton dimension {any}
    The expanded size of the tensor {any} must match the existing size {any}
    mat1 and mat2 shapes cannot be multiplied ({any})
    Sizes of tensors must match except in dimension {any}
    shape '{any}' is invalid for input of size {any}
    index {any} is out of bounds for dimension {any} with size {any}
    Dimension out of range {any}
    expected scalar type {any} but found {any}
    expected m1 and m2 to have the same dtype, but got: {any}
    Boolean value of Tensor with more than one value is ambiguous
"""
_UNREADABLE = frozenset(
    {
        "the result is too large to be looked at",
        "the result holds too many values, or is nested too deeply",
        "the result is a text of more than 100,000 characters",
        "the result is a bytes object of more than 100,000 bytes",
        "the result is an integer of thousands of digits",
        "the result is a dict of more than 1,000 keys",
    }
)
_SIGNALS = ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGKILL", "SIGSEGV", "SIGXCPU", "SIGXFSZ")
_ENDINGS = {"it made too many files", *(f"it was ended by {name}" for name in _SIGNALS)}


def _pattern(message: str) -> tuple[re.Pattern[str], list[str]]:
    """What finds a message of the list, and its words: fixed texts at even places, the kinds of slots between."""
    parts = re.split(r"\{(\w+)\}", message)
    wanted = [f"({_SLOTS[part]})" if place % 2 else re.escape(part) for place, part in enumerate(parts)]
    return re.compile("".join(wanted)), parts


_PATTERNS = [_pattern(line.strip()) for line in _MESSAGES.strip().splitlines()]


def error(error: Any, source: str, known: Collection[str] = ()) -> str:
    """An exception of an answer. `source`: the answer cell; `known`: names that the exercise itself uses."""
    if not isinstance(error, dict):
        return "an error"
    bases = error.get("mro")
    kind = next((base for base in bases if base in _ERRORS), None) if isinstance(bases, list) else None
    line, lines = error.get("line"), source.splitlines()
    text = lines[line - 1].strip() if isinstance(line, int) and 0 < line <= min(len(lines), MOST_LINES) else ""
    said = _usual(str(error.get("message")), {*re.findall(r"\w+", text), *known})
    words = f"{kind or 'an error'}: {said}" if said else kind or "an error"
    return clean(f"{words} (line {line} of the answer cell: {text})" if text else words)


def _usual(message: str, names: Collection[str]) -> str:
    """A message of the list, "…" in place of what may not be told; "" for any other message."""
    for pattern, parts in _PATTERNS:
        found = pattern.fullmatch(message)
        if found:
            filled = list(parts)
            filled[1::2] = map(_slot, parts[1::2], found.groups(), [names] * len(found.groups()))
            return "".join(filled)
    return ""


def _slot(kind: str, text: str, names: Collection[str]) -> str:
    if kind == "sign":
        return text if text in _SIGNS else "…"
    if kind == "type" and text in _TYPES:
        return text
    return text if kind != "any" and all(word in names for word in text.split(".")) else "…"


def closed(name: str, names: Collection[str]) -> str:
    """That a closed function was called, one of `names`."""
    return closed_text(name) if name in names else "A function was called that is closed in this exercise."


def unreadable(why: str) -> str:
    """Why a result could not be read."""
    return why if why in _UNREADABLE else "the result cannot be looked at"


def ending(how: Any) -> str:
    """How the process of an answer ended, by what the jail says."""
    if isinstance(how, str) and how in _ENDINGS:
        return f"the answer's process ended: {how}"
    if isinstance(how, str) and how.startswith("it left with exit status"):
        return "the answer's process ended: it left with an exit status"
    return "the answer's process ended"


def result(have: Any, want: Any) -> str:
    """What a wrong result is, beside the right one."""
    if have is None:
        return "None came back: is a `return` missing?"
    if isinstance(have, Opaque):
        return f"the result is {have!r}" if have.type_name in _TYPES else "the result is an object of another type"
    a, b = to_array(have), to_array(want)
    if a is None or b is None:
        return "the result has another form than asked for" if (a is None) != (b is None) else "other values"
    if a.ndim != b.ndim:
        return f"the result has another number of dimensions ({a.ndim}, not {b.ndim})"
    return "the result has another shape than asked for" if a.shape != b.shape else "other values"
