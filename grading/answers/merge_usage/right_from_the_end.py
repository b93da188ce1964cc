"""Right: looks from the end; a key without a value stays as None."""


def merge_usage(events):
    keys = {key for event in events for key in event}
    return {key: next((event[key] for event in reversed(events) if event.get(key) is not None), None) for key in keys}
