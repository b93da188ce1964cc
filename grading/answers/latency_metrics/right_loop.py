"""Right: walks through the tokens once."""


def latency_metrics(requested_at, token_times):
    if len(token_times) == 0:
        raise ValueError("no tokens")
    before, total, n_gaps = requested_at, 0.0, 0
    for i, now in enumerate(token_times):
        if now < before:
            raise ValueError(f"token {i} came at {now}, before {before}")
        if i > 0:
            total += now - before
            n_gaps += 1
        before = now
    if n_gaps == 0:
        tpot = tps = float("nan")
    else:
        tpot = total / n_gaps
        tps = float("inf") if tpot == 0 else 1 / tpot
    return {"ttft": token_times[0] - requested_at, "tpot": tpot, "tps": tps, "e2e": before - requested_at}
