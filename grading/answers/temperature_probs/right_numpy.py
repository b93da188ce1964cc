"""Right: numpy, the maximum taken out first."""

import numpy as np


def temperature_probs(logits, temperature):
    if temperature < 0:
        raise ValueError("negative temperature")
    values = np.array(logits.tolist())
    if temperature == 0:
        return np.eye(len(values))[values.argmax()]
    powers = np.exp((values - values.max()) / temperature)
    return powers / powers.sum()
