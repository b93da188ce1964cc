"""Wrong: adds the events up."""
# mistake: added up


def merge_usage(events):
    merged = {}
    for event in events:
        for key, value in event.items():
            if value is not None:
                merged[key] = merged.get(key, 0) + value
    return merged
