"""Wrong: memory is free."""
# mistake: arithmetic only


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if peak_flops <= 0 or bandwidth <= 0:
        raise ValueError("rates must be positive")
    return flops / peak_flops
