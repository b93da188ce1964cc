"""How long a slider of the sampling lab takes in the kernel: from the change of its value to the new picture.

    python benchmarks/sampling_lab.py [--changes N]

Each change runs what a browser's message runs: the pipeline over the whole vocabulary, the SVG and the table. A new
prompt also pushes the text through the model. Beside it: one matplotlib figure of the same bars, as a PNG. Times are
printed and never asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from arguments import count

import kvlab
from kvlab import plots, profiling, widgets
from kvlab.widgets.base import png

PROMPTS = ("mom washed the", "dad fixed the", "Grandma asked Nick to go to the", "The doctor sang")


def timed(changes: Iterable[Any], change: Callable[[Any], object]) -> profiling.Timing:
    """Seconds of each change; the first one, which loads what is needed, does not count."""
    seconds = []
    for value in changes:
        started = time.perf_counter()
        change(value)
        seconds.append(time.perf_counter() - started)
    return profiling.Timing.of(seconds[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=count, default=100, help="changes of each control")
    n = parser.parse_args().changes
    if n < 2:
        parser.error("--changes must be at least 2")
    torch.set_num_threads(2)
    model = kvlab.load("primer")
    with contextlib.redirect_stdout(io.StringIO()):  # the lab's own table, as there is no notebook here
        lab = widgets.sampling_lab(model, top_k=40, top_p=0.9, min_p=0.05, penalty=1.2)
    values: dict[str, list[Any]] = {
        "temperature": [0.5 + 2 * i / n for i in range(n)],
        "top_k": [1 + i % 60 for i in range(n)],
        "top_p": [0.1 + 0.9 * i / n for i in range(n)],
        "min_p": [i / n for i in range(n)],
        "penalty": [1 + i / n for i in range(n)],
        "order": [list(kvlab.sampling.ORDERS)[i % len(kvlab.sampling.ORDERS)] for i in range(n)],
        "prompt": [PROMPTS[i % len(PROMPTS)] for i in range(n)],
    }
    print(
        f"{profiling.describe_device('cpu')}; primer, vocabulary of {model.config.vocab_size:,}; value to new picture\n"
    )

    def moved(name: str, changes: Any) -> str:
        return timed(changes, lambda value: setattr(lab.controls[name], "value", value))

    for name, changes in values.items():
        print(f"{name:24} {moved(name, changes)}")
    lab.controls["draws"].value = 200_000
    print(f"{'temperature, 200,000 draws':24} {moved('temperature', values['temperature'][: n // 2 + 1])}")
    bars = dict(zip(map(str, lab.values["tokens"]), lab.values["after"], strict=True))
    figure = timed(range(10), lambda _: png(plots.bars(bars, "token", "probability")))
    print(f"{'one matplotlib figure':24} {figure}")


if __name__ == "__main__":
    main()
