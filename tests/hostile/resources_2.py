"""Hand-ins that use up time, memory, disk, output or processes, or end the process in every way there is (2 of 2)."""

from __future__ import annotations

from hostile.model import EXERCISES, Expect, Trick, replaced, sabotage

_FORK_BOMB = """
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
"""


_FORK_BOMB_DETACHED = """
import os

for _ in range(200):
    try:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    pass
            os._exit(0)
    except OSError:
        break
"""


_THREADS = """
import threading, time

while True:
    try:
        threading.Thread(target=time.sleep, args=(10**6,)).start()
    except RuntimeError:
        break
"""


_OUTPUT = """
import os, sys

_block = "x" * (1 << 20)
for _ in range(4096):
    sys.stdout.write(_block)
    sys.stderr.write(_block)
"""


_OUTPUT_RAW = """
import os

_block = b"x" * (1 << 20)
for _ in range(4096):
    os.write(1, _block)
    os.write(2, _block)
"""


_OUTPUT_NASTY = """
import sys

print("\\x1b[2J\\x1b]0;owned\\x07\\r\\x00" * 1000)
sys.stdout.buffer.write(bytes(range(256)) * 1000)
print("<script>document.title = 'owned'</script>" * 100)

def positions_processed(*args):
    raise RuntimeError("\\x1b[31m" + "x" * 5_000_000)
"""


_TRACEBACK = """
def _deep(n):
    if n == 0:
        raise ValueError("x" * 10_000)
    try:
        _deep(n - 1)
    except ValueError as error:
        raise RuntimeError("y" * 10_000) from error


def positions_processed(*args):
    _deep(300)
"""


_RECURSION = """
import sys

sys.setrecursionlimit(10**9)


def positions_processed(*args):
    return positions_processed(*args)
"""


_C_STACK = """
def positions_processed(*args):
    import functools
    f = len
    for _ in range(1_000_000):
        f = functools.partial(f)
    value = ()
    for _ in range(1_000_000):
        value = (value,)
    return hash(value)
"""


_SEGFAULT = """
import ctypes


def positions_processed(*args):
    return ctypes.string_at(0)
"""


_ABORT = """
import os

os.abort()
"""


_SOURCE_LONG = "positions_processed = lambda *a: (" + "+".join(["1"] * 200_000) + ")\n"


_SOURCE_PARENS = "x = " + "(" * 100_000 + "\n"


TRICKS: tuple[Trick, ...] = (
    sabotage("fork-bomb", "A loop that forks.", _FORK_BOMB, strict=False, harmful=True),
    sabotage(
        "fork-detached", "Two hundred detached processes that loop.", _FORK_BOMB_DETACHED, strict=False, harmful=True
    ),
    sabotage("thread-bomb", "Threads until no more can be started.", _THREADS, strict=False, harmful=True),
    sabotage(
        "output-flood",
        "8 GB of output through sys.stdout and sys.stderr.",
        _OUTPUT,
        flags=("output", "time", "killed"),
        harmful=True,
    ),
    sabotage(
        "output-flood-raw",
        "8 GB of output straight to the descriptors 1 and 2.",
        _OUTPUT_RAW,
        flags=("output", "time", "killed"),
        harmful=True,
    ),
    sabotage("output-nasty", "Terminal sequences, NUL, scripts and an error text of 5 MB.", _OUTPUT_NASTY),
    sabotage("traceback-long", "300 chained exceptions with 10 kB of text each.", _TRACEBACK),
    sabotage("exit", "sys.exit(0) while the first answer is defined.", "import sys\n\nsys.exit(0)\n"),
    sabotage(
        "exit-in-call", "SystemExit when it is called.", "def positions_processed(*args):\n    raise SystemExit(0)\n"
    ),
    sabotage(
        "exit-hard", "os._exit(0) while the first answer is defined.", "import os\n\nos._exit(0)\n", flags=("killed",)
    ),
    sabotage(
        "exit-hard-in-call",
        "os._exit(0) when it is called.",
        "import os\n\n\ndef positions_processed(*args):\n    os._exit(0)\n",
        flags=("killed",),
    ),
    sabotage(
        "exit-shell",
        "quit() and get_ipython().ask_exit().",
        "try:\n    get_ipython().ask_exit()\nexcept NameError:\n    pass\nquit()\n",
    ),
    sabotage(
        "keyboard-interrupt",
        "KeyboardInterrupt, raised at once and in each call.",
        "def positions_processed(*args):\n    raise KeyboardInterrupt\n\n\nraise KeyboardInterrupt\n",
    ),
    sabotage(
        "generator-exit",
        "Exceptions that no except Exception catches.",
        "class Rude(BaseException):\n    pass\n\n\ndef positions_processed(*args):\n    raise Rude\n\n\nraise GeneratorExit\n",
    ),
    sabotage("asks-for-input", "input() and getpass().", "import getpass\n\nn = input('score? ')\ngetpass.getpass()\n"),
    sabotage(
        "breakpoint",
        "breakpoint() opens a debugger that waits for commands.",
        "breakpoint()\nimport pdb\n\npdb.set_trace()\n",
    ),
    sabotage("segfault", "ctypes reads address 0.", _SEGFAULT, flags=("killed",), harmful=True),
    sabotage("abort", "The process aborts itself.", _ABORT, flags=("killed",), harmful=True),
    sabotage(
        "recursion",
        "Endless recursion, with the limit lifted.",
        _RECURSION,
        flags=("killed", "memory", "refused"),
        harmful=True,
    ),
    sabotage("recursion-in-c", "A value nested a million deep is hashed and freed.", _C_STACK, harmful=True),
    sabotage("source-long", "One expression of 200,000 terms.", _SOURCE_LONG),
    sabotage("source-parentheses", "100,000 open parentheses.", _SOURCE_PARENS),
    sabotage("source-nul", "A NUL character in the source.", "x = '\x00'\n"),
    sabotage(
        "source-syntax-error",
        "The first answer does not parse.",
        "def positions_processed(prompt_len, n_new, cached:\n    return 0\n",
    ),
    sabotage(
        "source-coding-line", "A coding line names a codec that is not text.", "# -*- coding: rot13 -*-\nqrs = 1\n"
    ),
    replaced(
        "every-answer-hangs",
        "All four answers loop for ever: what one submission may cost in time.",
        {name: "while True:\n    pass\n" for name in EXERCISES},
        expect=Expect("zero", flags=("time", "killed")),
    ),
)
