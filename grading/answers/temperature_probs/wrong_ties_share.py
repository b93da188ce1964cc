"""Wrong: a small temperature in the place of 0."""
# mistake: ties share

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    return torch.softmax(logits / max(temperature, 1e-6), -1)
