"""Wrong: operations over bandwidth, bytes over peak."""
# mistake: rates swapped


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if peak_flops <= 0 or bandwidth <= 0:
        raise ValueError("rates must be positive")
    return max(flops / bandwidth, bytes_moved / peak_flops)
