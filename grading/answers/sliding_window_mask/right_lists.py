"""Right: nested lists of bools, row by row."""


def sliding_window_mask(n_q, n_k, window):
    if n_q > n_k:
        raise ValueError(n_q)
    if window <= 0:
        raise ValueError(window)
    rows = []
    for position in range(n_k - n_q, n_k):
        first = max(0, position - window + 1)
        rows.append([False] * first + [True] * (position - first + 1) + [False] * (n_k - 1 - position))
    return rows
