"""Wrong: milliseconds."""
# mistake: milliseconds


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if peak_flops <= 0 or bandwidth <= 0:
        raise ValueError("rates must be positive")
    return 1000 * max(flops / peak_flops, bytes_moved / bandwidth)
