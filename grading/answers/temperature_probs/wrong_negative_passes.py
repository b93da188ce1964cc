"""Wrong: does not look at the sign."""
# mistake: negative passes

import torch


def temperature_probs(logits, temperature):
    if temperature == 0:
        return torch.eye(len(logits))[logits.argmax()]
    return torch.softmax(logits / temperature, -1)
