"""Wrong: takes the events out of the list."""
# mistake: events changed


def merge_usage(events):
    merged = {}
    while events:
        merged.update({key: value for key, value in events.pop(0).items() if value is not None})
    return merged
