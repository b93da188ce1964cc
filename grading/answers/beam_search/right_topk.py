"""Right: torch.topk over one long vector; ended beams stand at its end."""

import torch


def beam_search(next_log_probs, start, n_beams, max_new, eos):
    if n_beams < 1 or max_new < 0:
        raise ValueError("n_beams below 1, or max_new below 0")
    live, ended = [(tuple(start), 0.0)], []
    for _ in range(max_new):
        if not live:
            break
        rows = torch.stack([next_log_probs(list(tokens)) + score for tokens, score in live])
        vocab = rows.shape[1]
        flat = torch.cat([rows.flatten(), torch.tensor([score for _, score in ended], dtype=rows.dtype)])
        values, places = flat.topk(min(n_beams, len(flat)))
        new_live, new_ended = [], []
        for score, place in zip(values.tolist(), places.tolist(), strict=True):
            if place >= rows.numel():
                new_ended.append(ended[place - rows.numel()])
                continue
            tokens = (*live[place // vocab][0], place % vocab)
            (new_ended if place % vocab == eos else new_live).append((tokens, score))
        live, ended = new_live, new_ended
    found = sorted(live + ended, key=lambda pair: pair[1], reverse=True)
    return [(list(tokens), score) for tokens, score in found]
