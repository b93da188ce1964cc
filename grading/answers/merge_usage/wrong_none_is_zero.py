"""Wrong: None counts 0."""
# mistake: None replaces


def merge_usage(events):
    merged = {}
    for event in events:
        for key, value in event.items():
            merged[key] = value or 0
    return merged
