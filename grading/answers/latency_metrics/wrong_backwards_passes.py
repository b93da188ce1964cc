"""Wrong: only the first token is looked at."""
# mistake: backwards passes

import math


def latency_metrics(requested_at, token_times):
    if not token_times or token_times[0] < requested_at:
        raise ValueError("no tokens, or the first one is too early")
    n = len(token_times)
    tpot = (token_times[-1] - token_times[0]) / (n - 1) if n > 1 else math.nan
    tps = math.inf if tpot == 0 else 1 / tpot
    return {"ttft": token_times[0] - requested_at, "tpot": tpot, "tps": tps, "e2e": token_times[-1] - requested_at}
