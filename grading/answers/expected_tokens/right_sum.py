"""Right: the sum of the powers, in numpy."""

import numpy as np


def expected_tokens(acceptance, k):
    if not 0 <= acceptance <= 1 or k < 0:
        raise ValueError("acceptance from 0 to 1, k from 0")
    return np.power(float(acceptance), np.arange(k + 1)).sum()
