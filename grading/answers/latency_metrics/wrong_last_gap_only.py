"""Wrong: the newest gap stands for all of them."""
# mistake: one gap for all

import math


def latency_metrics(requested_at, token_times):
    if not token_times:
        raise ValueError("no tokens")
    if any(b < a for a, b in zip([requested_at, *token_times], token_times, strict=False)):
        raise ValueError("time runs backwards")
    n = len(token_times)
    tpot = token_times[-1] - token_times[-2] if n > 1 else math.nan
    tps = math.inf if tpot == 0 else 1 / tpot
    return {"ttft": token_times[0] - requested_at, "tpot": tpot, "tps": tps, "e2e": token_times[-1] - requested_at}
