"""Wrong: rates are not checked."""
# mistake: no errors


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    return max(flops / peak_flops, bytes_moved / bandwidth)
