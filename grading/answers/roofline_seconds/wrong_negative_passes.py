"""Wrong: only 0 is refused."""
# mistake: negative rates pass


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if peak_flops == 0 or bandwidth == 0:
        raise ValueError("rates must not be 0")
    return max(flops / peak_flops, bytes_moved / bandwidth)
