"""Right: through logarithms, in float64."""

import torch


def temperature_probs(logits, temperature):
    if temperature > 0:
        scaled = logits.double() / temperature
        return (scaled - scaled.logsumexp(-1)).exp()
    if temperature < 0:
        raise ValueError("negative temperature")
    return (torch.arange(len(logits)) == logits.argmax()).double()
