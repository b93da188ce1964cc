"""Right: text by text, token by token; the result is a nested list."""


def mean_pool(hidden, mask):
    if hidden.shape[:2] != mask.shape:
        raise ValueError("the mask has another shape")
    pooled = []
    for b in range(hidden.shape[0]):
        total, count = [0.0] * hidden.shape[2], 0
        for i in range(hidden.shape[1]):
            if mask[b, i] != 0:
                total = [x + float(y) for x, y in zip(total, hidden[b, i], strict=True)]
                count += 1
        if count == 0:
            raise ValueError(f"text {b} is empty")
        pooled.append([x / count for x in total])
    return pooled
