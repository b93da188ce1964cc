"""Checks that a learner sees: a panel that says not attempted, not right yet (with what failed and why), or right.

    with check.exercise("top_p_filter") as t:
        t.close(top_p_filter(logits, 0.9), expected, "the token that crosses p belongs to the set")

A failed check raises only where nbgrader runs the notebook (NBGRADER_EXECUTION is set) or with KVLAB_STRICT=1.
"""

from kvlab.check.runner import Exercise, exercise
from kvlab.check.unit import hint, solution

__all__ = ["Exercise", "exercise", "hint", "solution"]
