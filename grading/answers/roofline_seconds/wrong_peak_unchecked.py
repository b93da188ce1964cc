"""Wrong: checks the bandwidth only."""
# mistake: peak_flops unchecked


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if bandwidth <= 0:
        raise ValueError("the bandwidth must be positive")
    return max(flops / peak_flops, bytes_moved / bandwidth)
