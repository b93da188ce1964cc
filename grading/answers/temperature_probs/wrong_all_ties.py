"""Wrong: 1 for every maximum."""
# mistake: all ties 1

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    if temperature == 0:
        return (logits == logits.max()).float()
    return torch.softmax(logits / temperature, -1)
