"""Right: one step, then the rest by recursion; heapq picks the best, arrays come back."""

import heapq

import numpy as np


def beam_search(next_log_probs, start, n_beams, max_new, eos):
    if n_beams < 1 or max_new < 0:
        raise ValueError("n_beams below 1, or max_new below 0")
    first = len(start)

    def ended(tokens):
        return len(tokens) > first and tokens[-1] == eos

    def go_on(beams, left):
        if left == 0 or all(ended(tokens) for tokens, _ in beams):
            return beams
        candidates = [beam for beam in beams if ended(beam[0])]
        for tokens, score in beams:
            if not ended(tokens):
                probs = np.asarray(next_log_probs(list(tokens)))
                candidates += [((*tokens, token), score + probs[token]) for token in range(len(probs))]
        return go_on(heapq.nlargest(n_beams, candidates, key=lambda beam: beam[1]), left - 1)

    return [(np.array(tokens), score) for tokens, score in go_on([(tuple(start), 0.0)], max_new)]
