"""Wrong: needs a first event."""
# mistake: no events


def merge_usage(events):
    merged = dict(events[0])
    for event in events[1:]:
        merged.update({key: value for key, value in event.items() if value is not None})
    return merged
