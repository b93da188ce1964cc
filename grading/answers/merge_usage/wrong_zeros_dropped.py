"""Wrong: takes 0 for no value."""
# mistake: zeros dropped


def merge_usage(events):
    merged = {}
    for event in events:
        merged.update({key: value for key, value in event.items() if value})
    return merged
