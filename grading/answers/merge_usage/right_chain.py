"""Right: a chain of dicts, the newest first."""

from collections import ChainMap


def merge_usage(events):
    known = [{key: value for key, value in event.items() if value is not None} for event in events]
    return dict(ChainMap(*reversed(known)))
