"""Widgets: a question, a few controls and a figure of real values, each over a plain function that is tested.

Importing this package loads neither ipywidgets nor matplotlib: both are loaded when the first widget is made.
"""

from kvlab.widgets.base import Explorer, Result
from kvlab.widgets.break_even import break_even, break_even_costs
from kvlab.widgets.break_it import CHOICES as FAULT_CHOICES
from kvlab.widgets.break_it import break_it, run_fault
from kvlab.widgets.break_pages import PAGE_FAULTS, break_pages, run_pages_fault
from kvlab.widgets.break_prefix import PREFIX_FAULTS, break_prefix, run_prefix_fault
from kvlab.widgets.cache_stepper import StepperState, cache_stepper, state_at, stepper_states
from kvlab.widgets.kv_calculator import kv_calculator, kv_sizes
from kvlab.widgets.page_waste import draw_lengths, empty_share, page_waste, waste_by_block
from kvlab.widgets.paged_pool import paged_pool, pool_matrix, pool_states
from kvlab.widgets.prompt_cache import prompt_cache, prompt_cache_view
from kvlab.widgets.roofline_explorer import roofline_explorer, roofline_passes
from kvlab.widgets.scheduler_timeline import scheduler_timeline, timeline
from kvlab.widgets.window_mask import window_mask, window_view

__all__ = [
    "FAULT_CHOICES",
    "PAGE_FAULTS",
    "PREFIX_FAULTS",
    "Explorer",
    "Result",
    "StepperState",
    "break_even",
    "break_even_costs",
    "break_it",
    "break_pages",
    "break_prefix",
    "cache_stepper",
    "draw_lengths",
    "empty_share",
    "kv_calculator",
    "kv_sizes",
    "page_waste",
    "paged_pool",
    "pool_matrix",
    "pool_states",
    "prompt_cache",
    "prompt_cache_view",
    "roofline_explorer",
    "roofline_passes",
    "run_fault",
    "run_pages_fault",
    "run_prefix_fault",
    "scheduler_timeline",
    "state_at",
    "stepper_states",
    "timeline",
    "waste_by_block",
    "window_mask",
    "window_view",
]
