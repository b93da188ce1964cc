"""Wrong: has no place for keys that come later."""
# mistake: keys of the first event


def merge_usage(events):
    if not events:
        return {}
    merged = dict(events[0])
    for event in events[1:]:
        for key in merged:
            if event.get(key) is not None:
                merged[key] = event[key]
    return merged
