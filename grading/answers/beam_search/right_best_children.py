"""Right: per beam only the n_beams best children: no other can be among the best."""


def beam_search(next_log_probs, start, n_beams, max_new, eos):
    if n_beams < 1 or max_new < 0:
        raise ValueError("n_beams below 1, or max_new below 0")
    beams = {tuple(start): 0.0}
    done = set()
    for _ in range(max_new):
        if set(beams) <= done:
            break
        pool = {}
        for tokens, score in beams.items():
            if tokens in done:
                pool[tokens] = score
                continue
            log_probs = next_log_probs(list(tokens))
            values, ids = log_probs.topk(min(n_beams, len(log_probs)))
            for value, token in zip(values, ids, strict=True):
                longer = (*tokens, int(token))
                pool[longer] = score + float(value)
                if token == eos:
                    done.add(longer)
        beams = dict(sorted(pool.items(), key=lambda item: item[1], reverse=True)[:n_beams])
    return list(beams.items())
