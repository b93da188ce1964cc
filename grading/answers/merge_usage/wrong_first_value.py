"""Wrong: keeps the first value of a key."""
# mistake: first value


def merge_usage(events):
    merged = {}
    for event in events:
        for key, value in event.items():
            if value is not None:
                merged.setdefault(key, value)
    return merged
