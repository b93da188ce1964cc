"""Wrong: has no place for keys that end early."""
# mistake: keys of the last event


def merge_usage(events):
    if not events:
        return {}
    merged = {}
    for event in events:
        merged.update({key: value for key, value in event.items() if value is not None})
    return {key: value for key, value in merged.items() if key in events[-1]}
