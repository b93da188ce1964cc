"""What a page tells of an answer's behaviour hands no held-out input out, and is still of use to honest learners."""

import re
from pathlib import Path

import numpy as np
import pytest

from jail_session import grade, one, running  # noqa: F401 - the fixture
from kvgrade import told
from kvgrade.cases import Case, call
from kvgrade.inside import wire
from kvgrade.inside.wire import Opaque

SECRET = 731_905.25
LEAK = one("half", lambda x: x / 2, Case(call("half", SECRET)))
SPELLED = "['zero','one','two','three','four','five','six','seven','eight','nine']"


@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError(x)",
        f"raise ValueError(' '.join({SPELLED}[int(c)] for c in str(x) if c != '.'))",
        "raise type('E' + str(x).translate(str.maketrans('0123456789.', 'abcdefghijk')), (ValueError,), {})()",
        "raise NameError('name \\'n' + str(x).replace('.', '_') + '\\' is not defined')",
        "return getattr(x, 'n' + str(x).replace('.', '_'))",
        "return type('T' + str(x), (), {})()",
        "return {}[str(x)]",
        "return [0] * int(x % 1000)",
        "return np.ones([int(c) + 1 for c in str(x) if c != '.'][:4])",
        "import os; os._exit(int(x) % 256)",
        "import sys; sys.modules['kvlab.check.closed']._called.append(str(x))",
        "import sys; sys.exit(str(x))",
        "open(f'/{x}')",
        "import sys; sys.modules['kvgrade.inside.steps'].raised = lambda *_: {'type': str(x), 'mro': [str(x)], 'message': str(x), 'line': int(x) % 1000, 'text': str(x)}; raise ValueError",
        "import sys; sys.modules['kvgrade.inside.steps'].plain = lambda v: (_ for _ in ()).throw(sys.modules['kvgrade.inside.wire'].WireError(str(x)))",
    ],
)
def test_no_input_reaches_the_page(running, body: str) -> None:  # noqa: F811
    source = f"import kvlab.check.closed\ndef half(x):\n    {body}"
    result = grade(running, LEAK, source)
    said = f"{result.groups[0].seen} {result.groups[0].why} {result.note}".replace(body, "").replace("(line 3 of", "")
    assert not result.groups[0].right
    assert not re.search(r"731|905|hdb|seven|\d{2}", said), said


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return x / 0", "ZeroDivisionError: float division by zero (line 2 of the answer cell: return x / 0)"),
        ("return missing * x", "NameError: name 'missing' is not defined (line 2"),
        ("return None.shape", "AttributeError: 'NoneType' object has no attribute 'shape' (line 2"),
        ("return [1][int(x)]", "IndexError: list index out of range (line 2"),
        ("return x @ 'a'", "TypeError: unsupported operand type(s) for @: 'float' and 'str' (line 2"),
        (
            "return np.ones(3) + np.ones(4)",
            "ValueError: operands could not be broadcast together with shapes … (line 2",
        ),
        ("return np.ones((3, 4)) @ np.ones(5)", "ValueError: matmul: Input operand … has a mismatch in its core"),
        ("return torch.ones(3) + torch.ones(4)", "RuntimeError: The size of tensor a (…) must match the size of"),
        ("raise NotImplementedError", "NotImplementedError (line 2 of the answer cell: raise NotImplementedError)"),
        ("return np.linalg.inv(np.zeros((2, 2)))", "ValueError (line 2"),
    ],
)
def test_an_honest_error_is_told_in_full(running, body: str, says: str) -> None:  # noqa: F811
    result = grade(running, LEAK, f"def half(x):\n    {body}")
    assert result.groups[0].seen.startswith(says)


def test_a_call_with_other_arguments_is_told_without_a_line(running) -> None:  # noqa: F811
    result = grade(running, LEAK, "def half():\n    return 1")
    assert result.groups[0].seen == "TypeError: half() takes … positional arguments but … given"


def test_names_are_told_only_where_they_stand_in_the_line() -> None:
    error = {"mro": ["NameError"], "message": "name 'b' is not defined", "line": 2}
    assert told.error(error, "a = 1\nb\n") == "NameError: name 'b' is not defined (line 2 of the answer cell: b)"
    assert told.error(error, "b = 1\na\n") == "NameError: name '…' is not defined (line 2 of the answer cell: a)"
    assert told.error({**error, "line": None}, "b") == "NameError: name '…' is not defined"
    assert told.error({**error, "line": None}, "", {"b"}) == "NameError: name 'b' is not defined"
    assert told.error({**error, "line": 3}, "a\nb") == "NameError: name '…' is not defined"
    assert told.error({"mro": ["Mine"], "message": "secret"}, "") == "an error"
    assert told.error("secret", "") == "an error"


def test_results_are_told_without_sizes() -> None:
    assert told.result(np.ones((7, 3)), np.ones((3, 7))) == "the result has another shape than asked for"
    assert told.result(np.ones(7), np.ones((3, 7))) == "the result has another number of dimensions (1, not 2)"
    assert told.result(Opaque("generator"), 1) == "the result is an object of type generator"
    assert told.result(Opaque("Secret"), 1) == "the result is an object of another type"
    assert told.result(2, 3) == "other values"


def test_all_that_makes_a_result_unreadable_is_known() -> None:
    text = Path(wire.__file__).read_text(encoding="utf-8")
    sentences = set(re.findall(r'"(the result [^"{]+)"', text))
    assert len(sentences) >= 6 and {told.unreadable(sentence) for sentence in sentences} == sentences
    assert told.unreadable("secret") == "the result cannot be looked at"


def test_ends_and_closed_names() -> None:
    assert told.ending("it was ended by SIGSEGV") == "the answer's process ended: it was ended by SIGSEGV"
    assert told.ending("it was ended by SIGRTMIN+3") == told.ending(731) == "the answer's process ended"
    assert "a.b is closed" in told.closed("a.b", ["a.b"]) and "secret" not in told.closed("secret", ["a.b"])
