"""Wrong: collects in the first event."""
# mistake: events changed


def merge_usage(events):
    merged = events[0] if events else {}
    for event in events:
        merged.update({key: value for key, value in event.items() if value is not None})
    return merged
