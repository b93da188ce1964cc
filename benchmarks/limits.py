"""How fast this machine reads memory: the best of several streaming kernels, torch's and our own."""

from __future__ import annotations

import numpy as np

from kvlab import profiling
from kvlab.fast.kernels import compiled, dot
from kvlab.fast.team import Team


@compiled
def stream(codes, scales, x, whole, out, t, threads):  # type: ignore[no-untyped-def]
    """A matrix-vector product that is as long as it takes to leave the cache behind."""
    rows = len(out)
    for r in range(t * rows // threads, (t + 1) * rows // threads):
        out[r] = dot(codes, scales, r, x, whole, x.dtype.type(1))


def bandwidth(n_bytes: int, threads: int, rounds: int = 5) -> dict[str, float]:
    """Bytes per second of torch's streaming kernels and of fp32 and bf16 reads by our own loop, the best run of each."""
    found = dict(profiling.read_bandwidth("cpu").kernels)
    width = 4096
    x, whole = np.ones(width, np.float32), np.zeros(width, np.int16)
    scales = np.zeros((1, 1), np.float32)
    team = Team(threads, np.zeros(1, np.int64))
    for name, kind in (("fp32 rows", np.float32), ("bf16 rows", np.uint16)):
        codes = np.ones((n_bytes // np.dtype(kind).itemsize // width, width), kind)
        out = np.zeros(len(codes), np.float32)

        def read(codes: np.ndarray = codes, out: np.ndarray = out) -> None:
            team.run(lambda t: stream(codes, scales, x, whole, out, t, threads))

        found[name] = codes.nbytes / profiling.measure(read, rounds).best
    return found
