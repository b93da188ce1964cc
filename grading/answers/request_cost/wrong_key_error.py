"""Wrong: needs all four keys."""
# mistake: missing keys refused


def request_cost(usage, prices):
    i = usage["input_tokens"] or 0
    w = usage["cache_creation_input_tokens"] or 0
    r = usage["cache_read_input_tokens"] or 0
    o = usage["output_tokens"] or 0
    if min(i, w, r, o) < 0:
        raise ValueError("negative")
    p_in, p_w, p_r, p_out = prices["input"], prices["cache_write"], prices["cache_read"], prices["output"]
    return (i * p_in + w * p_w + r * p_r + o * p_out) / 1e6
