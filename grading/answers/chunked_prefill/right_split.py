"""Right: torch.split gives the chunks."""


def chunked_prefill(model, ids, chunk_size, cache):
    if ids.numel() == 0:
        raise ValueError("the prompt is empty")
    if chunk_size < 1:
        raise ValueError(f"chunk_size is {chunk_size}; it must be at least 1")
    for chunk in ids.split(chunk_size):
        out = model(chunk, cache)
    return out[-1]
