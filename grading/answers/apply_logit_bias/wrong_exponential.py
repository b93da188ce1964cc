"""Wrong: adds the factor on the odds, not the number."""
# mistake: logarithm

import math


def apply_logit_bias(logits, bias):
    out = logits.clone()
    for token, number in bias.items():
        if not 0 <= token < len(logits):
            raise ValueError("an id outside the vocabulary")
        out[token] += math.exp(number)
    return out
