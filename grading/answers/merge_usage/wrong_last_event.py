"""Wrong: takes the last event for the whole."""
# mistake: last event only


def merge_usage(events):
    return dict(events[-1]) if events else {}
