"""An IPython extension that benchmarks/notebooks.py loads into a kernel: seconds and counted work of every cell.

It writes one JSON line for each cell to the file that KVLAB_PROBE names. Work is counted where a model does it, so that
"faster" can be told from "did less": rows through the feed-forward part of a layer (every pass of `kvlab.model`, the
engine, traces and hidden states goes through one), calls and positions of the fast path, timed calls, figures drawn.
"""

import functools
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

counts: Counter[str] = Counter()
_wrapped: set[str] = set()


def load_ipython_extension(shell: Any) -> None:
    """Start measuring with the next cell."""
    started: dict[str, float] = {}

    def before(info: Any) -> None:
        _wrap()
        counts.clear()
        started.update(wall=time.perf_counter(), cpu=_cpu())

    def after(result: Any) -> None:
        row = {"wall": time.perf_counter() - started["wall"], "cpu": _cpu() - started["cpu"], **counts}
        row["source"] = str(result.info.raw_cell)[:200]
        _write(row)

    _write({"time": time.time()})
    shell.events.register("pre_run_cell", before)
    shell.events.register("post_run_cell", after)


def _write(row: dict[str, Any]) -> None:
    with open(os.environ["KVLAB_PROBE"], "a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def _cpu() -> float:
    """Seconds of processor time of this process, all threads: other programs on the machine hardly change it."""
    return time.process_time()


def _wrap() -> None:
    """Count in what has been imported since the last cell; nothing is imported for it."""
    for name, attribute, seen in _PLACES:
        module = sys.modules.get(name)
        owner = module
        *path, last = attribute.split(".")
        for part in path:
            owner = getattr(owner, part, None)
        if owner is None or f"{name}.{attribute}" in _wrapped or not hasattr(owner, last):
            continue
        _wrapped.add(f"{name}.{attribute}")
        setattr(owner, last, _counting(getattr(owner, last), seen))


def _counting(function: Callable[..., Any], seen: Callable[..., None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        seen(*args)
        return function(*args, **kwargs)

    return counted


def _layer(layer: Any, x: Any) -> None:
    counts["layer passes"] += 1
    counts["layer rows"] += x.numel() // x.shape[-1]


def _fast(model: Any, ids: Any, *rest: Any) -> None:
    counts["fast passes"] += 1
    counts["fast positions"] += ids.numel()


def _timed(*args: Any) -> None:
    if sys._getframe(2).f_code.co_name != "read_bandwidth":  # it repeats for a time, as often as the machine allows
        counts["timed calls"] += 1


def _figure(*args: Any) -> None:
    counts["figures"] += 1


_PLACES: list[tuple[str, str, Callable[..., None]]] = [
    ("kvlab.model", "Mlp.forward", _layer),
    ("kvlab.fast.llama", "FastLlama.__call__", _fast),
    ("kvlab.profiling", "seconds_of", _timed),
    ("matplotlib.image", "imsave", _figure),  # the last step of every PNG, which a trial run of savefig does not reach
]
