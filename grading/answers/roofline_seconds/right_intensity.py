"""Right: compares operations per byte with what the machine can do per byte."""


def roofline_seconds(flops, bytes_moved, peak_flops, bandwidth):
    if not min(peak_flops, bandwidth) > 0:
        raise ValueError("rates must be positive")
    if flops * bandwidth >= bytes_moved * peak_flops:
        return flops / peak_flops
    return bytes_moved / bandwidth
