"""Wrong: None replaces a count."""
# mistake: None replaces


def merge_usage(events):
    merged = {}
    for event in events:
        merged.update(event)
    return merged
