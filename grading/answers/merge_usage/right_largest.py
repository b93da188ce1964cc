"""Right: counts never fall, so the largest is the last."""

from collections import defaultdict


def merge_usage(events):
    seen = defaultdict(list)
    for event in events:
        for key, value in event.items():
            if value is not None:
                seen[key].append(value)
    return {key: max(values) for key, values in seen.items()}
