"""Wrong: takes everything that is not above 0 for 0."""
# mistake: negative passes

import torch


def temperature_probs(logits, temperature):
    if temperature <= 0:
        return torch.eye(len(logits))[logits.argmax()]
    return torch.softmax(logits / temperature, -1)
