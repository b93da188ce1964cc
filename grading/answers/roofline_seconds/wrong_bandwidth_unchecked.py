"""Wrong: checks peak_flops only."""
# mistake: bandwidth unchecked


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if peak_flops <= 0:
        raise ValueError("peak_flops must be positive")
    return max(flops / peak_flops, bytes_moved / bandwidth)
