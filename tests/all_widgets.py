"""Make every widget of kvlab.widgets and move its controls; also a script, for other versions of ipywidgets."""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import torch

import kvlab
from kvlab import widgets
from kvlab.providers import LocalServer, StillClock

KINDS = ("Explorer", "SamplingLab")
"""What a function that shows a widget returns."""


def makers() -> dict[str, Callable[..., Any]]:
    """The functions of kvlab.widgets that show a widget: known by what they say they return."""
    found = {name: getattr(widgets, name) for name in widgets.__all__}
    return {
        name: function
        for name, function in found.items()
        if inspect.isfunction(function) and str(inspect.signature(function).return_annotation).strip("'") in KINDS
    }


@cache
def _model(name: str) -> Any:
    return kvlab.load(name, "cpu")


def made(running: ExitStack, chosen: str = "") -> Iterator[tuple[str, Any]]:
    """Each widget with its defaults, by name; `chosen`: only this one. `running` ends what some of them need."""
    for name, function in makers().items():
        if chosen and name != chosen:
            continue
        given: dict[str, Any] = {}
        for parameter in inspect.signature(function).parameters.values():
            if parameter.default is parameter.empty:
                given[parameter.name] = _argument(parameter.name, running)
        if name == "capacity_planner":
            given = {}  # its "model" is a published shape with a default
        yield name, function(**given)


def _argument(name: str, running: ExitStack) -> Any:
    if name == "weights":
        return torch.linspace(-1, 1, 64 * 64).reshape(64, 64)
    if name == "server":
        return running.enter_context(LocalServer(_model("primer"), clock=StillClock(), name="primer"))
    return _model({"model": "primer", "draft": "primer-draft"}[name])


def move(control: Any) -> bool:
    """Set a control to another value, as a learner would, or press it. False for one that shows text only."""
    if hasattr(control, "click"):
        control.click()
    elif hasattr(control, "options"):
        values = [item[1] if isinstance(item, tuple) else item for item in control.options]
        others = [value for value in values if value != control.value]
        if others:
            control.value = others[0]
    elif hasattr(control, "step"):
        step = control.step or 1
        control.value = control.value - step if control.value + step > control.max else control.value + step
    elif isinstance(control.value, bool):
        control.value = not control.value
    elif isinstance(control.value, str) and type(control).__name__ in ("Text", "Textarea"):
        control.value = control.value + " the"
    else:
        return False
    return True


def main() -> None:
    """Print a JSON object: for each widget how many controls were moved, and the message that it ended with."""
    import ipywidgets

    report: dict[str, Any] = {}
    with ExitStack() as running:
        for name, widget in made(running):
            moved = [move(control) for control in list(widget.controls.values())]
            report[name] = {"moved": sum(moved), "message": widget.message, "panel": widget.panel is not None}
    json.dump({"version": ipywidgets.__version__, "widgets": report}, sys.stdout)


if __name__ == "__main__":
    main()
