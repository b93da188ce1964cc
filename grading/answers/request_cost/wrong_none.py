"""Wrong: takes care of missing keys, not of None."""
# mistake: None refused


def request_cost(usage, prices):
    i = usage.get("input_tokens", 0)
    w = usage.get("cache_creation_input_tokens", 0)
    r = usage.get("cache_read_input_tokens", 0)
    o = usage.get("output_tokens", 0)
    if min(i, w, r, o) < 0:
        raise ValueError("negative")
    p_in, p_w, p_r, p_out = prices["input"], prices["cache_write"], prices["cache_read"], prices["output"]
    return (i * p_in + w * p_w + r * p_r + o * p_out) / 1e6
