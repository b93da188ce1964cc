"""Wrong: divides after softmax."""
# mistake: probabilities divided

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    if temperature == 0:
        return torch.eye(len(logits))[logits.argmax()]
    return torch.softmax(logits, -1) / temperature
