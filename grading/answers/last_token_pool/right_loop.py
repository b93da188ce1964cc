"""Right: text by text from the end; the result is a nested list."""


def last_token_pool(hidden, mask):
    if hidden.shape[0] != mask.shape[0] or hidden.shape[1] != mask.shape[1]:
        raise ValueError("shapes")
    pooled = []
    for vectors, row in zip(hidden.tolist(), mask.tolist(), strict=True):
        if not any(row):
            raise ValueError("empty text")
        pooled.append(next(v for v, m in zip(reversed(vectors), reversed(row), strict=True) if m))
    return pooled
