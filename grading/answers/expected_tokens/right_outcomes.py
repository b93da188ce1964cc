"""Right: every way a round can end, with its probability."""


def expected_tokens(acceptance, k):
    if not 0 <= acceptance <= 1:
        raise ValueError(f"{acceptance} is no probability")
    if k < 0:
        raise ValueError(f"{k} tokens?")
    total, alive = 0.0, 1.0
    for i in range(k):
        total += alive * (1 - acceptance) * (i + 1)
        alive *= acceptance
    return total + alive * (k + 1)
