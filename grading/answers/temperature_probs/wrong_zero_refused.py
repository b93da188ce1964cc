"""Wrong: refuses temperature 0."""
# mistake: temperature 0 refused

import torch


def temperature_probs(logits, temperature):
    if temperature <= 0:
        raise ValueError("negative temperature")
    return torch.softmax(logits / temperature, -1)
