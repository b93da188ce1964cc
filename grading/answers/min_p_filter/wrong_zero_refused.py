"""Wrong: the logarithm of 0."""
# mistake: min_p = 0 refused

import math


def min_p_filter(logits, min_p):
    if min_p > 1:
        raise ValueError("min_p must lie between 0 and 1")
    return logits.masked_fill(logits < logits.max() + math.log(min_p), float("-inf"))
