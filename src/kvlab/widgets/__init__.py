"""Widgets: a question, a few controls and a figure of real values, each over a plain function that is tested.

Importing this package loads neither ipywidgets nor matplotlib: both are loaded when the first widget is made.
"""

from kvlab.widgets.base import Explorer, Result
from kvlab.widgets.beam_tree import beam_tree, tree_view
from kvlab.widgets.bits import bit_errors, bits
from kvlab.widgets.break_draft import DRAFT_FAULTS, break_draft, run_draft_fault
from kvlab.widgets.break_even import break_even, break_even_costs
from kvlab.widgets.break_it import CHOICES as FAULT_CHOICES
from kvlab.widgets.break_it import break_it, run_fault
from kvlab.widgets.break_pages import PAGE_FAULTS, break_pages, run_pages_fault
from kvlab.widgets.break_prefix import PREFIX_FAULTS, break_prefix, run_prefix_fault
from kvlab.widgets.break_sampling import SAMPLING_FAULTS, break_sampling, run_sampling_fault
from kvlab.widgets.break_trace import TRACE_FAULTS, break_trace, run_trace_fault
from kvlab.widgets.break_vectors import VECTOR_FAULTS, break_vectors, run_vector_fault
from kvlab.widgets.cache_stepper import StepperState, cache_stepper, state_at, stepper_states
from kvlab.widgets.capacity_planner import capacity_plan, capacity_planner
from kvlab.widgets.draft_length import draft_length, draft_lengths
from kvlab.widgets.kv_calculator import kv_calculator, kv_sizes
from kvlab.widgets.layer_projection import layer_projection, layer_view, principal_axes
from kvlab.widgets.page_waste import draw_lengths, empty_share, page_waste, waste_by_block
from kvlab.widgets.paged_pool import paged_pool, pool_matrix, pool_states
from kvlab.widgets.prompt_cache import prompt_cache, prompt_cache_view
from kvlab.widgets.roofline_explorer import roofline_explorer, roofline_passes
from kvlab.widgets.sampling_lab import SamplingLab, continuations, next_logits, sampling_lab
from kvlab.widgets.sampling_view import bars_svg, lab_view
from kvlab.widgets.scheduler_timeline import scheduler_timeline, timeline
from kvlab.widgets.tiles import tile_counts, tiles
from kvlab.widgets.trace_stepper import stage_at, steps_of, trace_stepper
from kvlab.widgets.window_mask import window_mask, window_view

__all__ = [
    "DRAFT_FAULTS",
    "FAULT_CHOICES",
    "PAGE_FAULTS",
    "PREFIX_FAULTS",
    "SAMPLING_FAULTS",
    "TRACE_FAULTS",
    "VECTOR_FAULTS",
    "Explorer",
    "Result",
    "SamplingLab",
    "StepperState",
    "bars_svg",
    "beam_tree",
    "bit_errors",
    "bits",
    "break_draft",
    "break_even",
    "break_even_costs",
    "break_it",
    "break_pages",
    "break_prefix",
    "break_sampling",
    "break_trace",
    "break_vectors",
    "cache_stepper",
    "capacity_plan",
    "capacity_planner",
    "continuations",
    "draft_length",
    "draft_lengths",
    "draw_lengths",
    "empty_share",
    "kv_calculator",
    "kv_sizes",
    "lab_view",
    "layer_projection",
    "layer_view",
    "next_logits",
    "page_waste",
    "paged_pool",
    "pool_matrix",
    "pool_states",
    "principal_axes",
    "prompt_cache",
    "prompt_cache_view",
    "roofline_explorer",
    "roofline_passes",
    "run_draft_fault",
    "run_fault",
    "run_pages_fault",
    "run_prefix_fault",
    "run_sampling_fault",
    "run_trace_fault",
    "run_vector_fault",
    "sampling_lab",
    "scheduler_timeline",
    "stage_at",
    "state_at",
    "stepper_states",
    "steps_of",
    "tile_counts",
    "tiles",
    "timeline",
    "trace_stepper",
    "tree_view",
    "waste_by_block",
    "window_mask",
    "window_view",
]
