"""One call from text to token, every tensor on the way: traced, compared with the model, and its shapes anywhere."""

from kvlab.trace.call import Stage, Trace, trace_call
from kvlab.trace.compare import Check, Difference, check
from kvlab.trace.kinds import DECODE, KINDS, PHASES, PREFILL
from kvlab.trace.shapes import StageShape, shapes_of, shapes_table

__all__ = [
    "DECODE",
    "KINDS",
    "PHASES",
    "PREFILL",
    "Check",
    "Difference",
    "Stage",
    "StageShape",
    "Trace",
    "check",
    "shapes_of",
    "shapes_table",
    "trace_call",
]
