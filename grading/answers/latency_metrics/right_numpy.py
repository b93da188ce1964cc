"""Right: differences in numpy, results are numpy scalars."""

import numpy as np


def latency_metrics(requested_at, token_times):
    times = np.asarray(token_times, dtype=np.float64)
    if times.size == 0 or np.any(np.diff(times, prepend=requested_at) < 0):
        raise ValueError("times must be there and must not decrease")
    with np.errstate(divide="ignore"):
        tpot = np.diff(times).mean() if times.size > 1 else np.nan
        tps = np.float64(1) / tpot
    return {"ttft": times[0] - requested_at, "tpot": tpot, "tps": tps, "e2e": times[-1] - requested_at}
