"""Wrong: only the tokens of the answer are brought up to date."""
# mistake: output alone


def merge_usage(events):
    merged = {}
    for event in events:
        for key, value in event.items():
            if value is not None and (key not in merged or key == "output_tokens"):
                merged[key] = value
    return merged
