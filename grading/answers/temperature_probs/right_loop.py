"""Right: softmax by hand; a list comes back."""

import math


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    values = logits.tolist()
    top = max(values)
    if temperature == 0:
        first = values.index(top)
        return [1.0 if i == first else 0.0 for i in range(len(values))]
    weights = [math.exp((value - top) / temperature) for value in values]
    return [weight / sum(weights) for weight in weights]
