"""Right: one list of candidates, ended beams among them."""


def beam_search(next_log_probs, start, n_beams, max_new, eos):
    if n_beams < 1:
        raise ValueError("n_beams must be at least 1")
    if max_new < 0:
        raise ValueError("max_new must not be negative")
    beams = [(0.0, list(start), False)]
    for _ in range(max_new):
        if all(ended for _, _, ended in beams):
            break
        candidates = []
        for score, tokens, ended in beams:
            if ended:
                candidates.append((score, tokens, True))
            else:
                for token, value in enumerate(next_log_probs(tokens).tolist()):
                    candidates.append((score + value, [*tokens, token], token == eos))
        candidates.sort(key=lambda beam: -beam[0])
        beams = candidates[:n_beams]
    return [(tokens, score) for score, tokens, _ in beams]
