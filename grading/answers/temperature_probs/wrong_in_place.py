"""Wrong: divides the logits that it got."""
# mistake: input changed

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    if temperature == 0:
        return torch.eye(len(logits))[logits.argmax()]
    logits /= temperature
    return torch.softmax(logits, -1)
