"""Wrong: the temperature divides probabilities, which are then scaled back."""
# mistake: temperature ignored

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    if temperature == 0:
        return torch.eye(len(logits))[logits.argmax()]
    probs = torch.softmax(logits, -1) / temperature
    return probs / probs.sum()
