"""Widgets: a question, a few controls and a figure of real values, each over a plain function that is tested.

Importing this package loads neither ipywidgets nor matplotlib: both are loaded when the first widget is made.
"""

from kvlab.widgets.base import Explorer, Result
from kvlab.widgets.break_it import CHOICES as FAULT_CHOICES
from kvlab.widgets.break_it import break_it, run_fault
from kvlab.widgets.cache_stepper import StepperState, cache_stepper, state_at, stepper_states
from kvlab.widgets.kv_calculator import kv_calculator, kv_sizes

__all__ = [
    "FAULT_CHOICES",
    "Explorer",
    "Result",
    "StepperState",
    "break_it",
    "cache_stepper",
    "kv_calculator",
    "kv_sizes",
    "run_fault",
    "state_at",
    "stepper_states",
]
