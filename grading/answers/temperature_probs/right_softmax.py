"""Right: torch's softmax, a one-hot at argmax."""

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    if temperature == 0:
        probs = torch.zeros_like(logits)
        probs[torch.argmax(logits)] = 1
        return probs
    return (logits / temperature).softmax(-1)
