"""The answers in a hand-in. `kvlab.handin` takes them out, so that learners can see what the grader will see."""

from kvlab.handin.answers import (
    MOST_BYTES,
    MOST_SOURCE,
    MOST_TEXT,
    HandIn,
    Place,
    Unreadable,
    collect,
    places,
    read,
)

__all__ = [
    "MOST_BYTES",
    "MOST_SOURCE",
    "MOST_TEXT",
    "HandIn",
    "Place",
    "Unreadable",
    "collect",
    "places",
    "read",
]
