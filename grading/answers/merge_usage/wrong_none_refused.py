"""Wrong: compares None with a number."""
# mistake: None refused


def merge_usage(events):
    merged = {}
    for event in events:
        for key, value in event.items():
            merged[key] = max(merged.get(key, 0), value)
    return merged
