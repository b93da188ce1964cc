"""Wrong: writes zeros into the usage."""
# mistake: usage changed


def request_cost(usage, prices):
    for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
        usage[key] = usage.get(key) or 0
    i = usage["input_tokens"]
    w = usage["cache_creation_input_tokens"]
    r = usage["cache_read_input_tokens"]
    o = usage["output_tokens"]
    if min(i, w, r, o) < 0:
        raise ValueError("negative")
    p_in, p_w, p_r, p_out = prices["input"], prices["cache_write"], prices["cache_read"], prices["output"]
    return (i * p_in + w * p_w + r * p_r + o * p_out) / 1e6
