"""Wrong: no case for temperature 0."""
# mistake: divided by zero

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    return torch.softmax(logits / temperature, -1)
