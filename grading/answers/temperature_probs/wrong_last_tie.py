"""Wrong: the last of tied maxima."""
# mistake: last of the ties

import torch


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    if temperature == 0:
        return torch.eye(len(logits))[logits.argsort(stable=True)[-1]]
    return torch.softmax(logits / temperature, -1)
