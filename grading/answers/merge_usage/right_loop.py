"""Right: later values replace earlier ones."""


def merge_usage(events):
    merged = {}
    for event in events:
        for key, value in event.items():
            if value is not None:
                merged[key] = value
    return merged
