"""Wrong: exp of large numbers."""
# mistake: overflow

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    if temperature == 0:
        return torch.eye(len(logits))[logits.argmax()]
    powers = torch.exp(logits / temperature)
    return powers / powers.sum()
