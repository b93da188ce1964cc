"""Wrong: more operations than bytes is taken for limited by arithmetic."""
# mistake: work compared, not time


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if peak_flops <= 0 or bandwidth <= 0:
        raise ValueError("rates must be positive")
    return flops / peak_flops if flops > bytes_moved else bytes_moved / bandwidth
