"""Wrong: cuts the eos off."""
# mistake: eos left out


def beam_search(next_log_probs, start, n_beams, max_new, eos):
    if n_beams < 1 or max_new < 0:
        raise ValueError("n_beams below 1, or max_new below 0")
    beams = [(list(start), 0.0, False)]
    for _ in range(max_new):
        if all(ended for _, _, ended in beams):
            break
        pool = [beam for beam in beams if beam[2]]
        for tokens, score, ended in beams:
            if ended:
                continue
            for token, value in enumerate(next_log_probs(tokens).tolist()):
                pool.append(([*tokens, token], score + value, token == eos))
        beams = sorted(pool, key=lambda beam: beam[1], reverse=True)[:n_beams]
    return [(tokens[:-1] if ended else tokens, score) for tokens, score, ended in beams]
