"""Wrong: checks the product of the two rates."""
# mistake: product of the rates checked


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if peak_flops * bandwidth <= 0:
        raise ValueError("rates must be positive")
    return max(flops / peak_flops, bytes_moved / bandwidth)
