"""Run cells as IPython does, for the tests of kvlab.check."""

import itertools
import linecache
from typing import Any

import numpy as np
import torch

from kvlab import check
from kvlab.check.panel import State

STUB = 'raise NotImplementedError("not attempted yet")'
_count = itertools.count()
RIGHT = "def double(x):\n    return 2 * x"
WRONG = "def double(x):\n    return x + 2"
CHECK = 't.equal(double(3), 6, "twice, not two more")'


class Notebook:
    """Runs cells as IPython does: one namespace, each cell compiled under its own name that linecache knows."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"check": check, "np": np, "torch": torch}

    def run(self, source: str) -> None:
        name = f"/tmp/ipykernel_1/cell{next(_count)}.py"
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
        exec(compile(source, name, "exec"), self.namespace)

    def check(self, answer: str, lines: str, closed: list[str] | None = None) -> State:
        """Run an answer cell and a check cell and give the verdict."""
        if answer:
            self.run("# exercise: double\n" + answer)
        body = "\n".join("    " + line for line in lines.split("\n"))
        self.run(f'with check.exercise("double", closed={closed or []!r}) as t:\n{body}')
        return self.namespace["t"].state
