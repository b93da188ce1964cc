"""Clocks, memory and the bandwidth limit of this machine. torch is imported when a function needs it.

A time is shown as median and range, since one number hides how much a clock wobbles; nothing here, and nothing that is
graded, passes or fails because of one. Compare ways of doing the same thing with `interleave`, in one run.

The branches for a GPU have not run on one yet: they are tested with stand-ins for `torch.cuda`.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvlab.machine import available_memory, cpu_cache_bytes, cpu_name, peak_process_memory, total_memory
from kvlab.validate import amount, where_to_write, whole

if TYPE_CHECKING:
    import torch


# --- devices ---------------------------------------------------------------------------------------------------------


_IN_A_NOTEBOOK = "In a notebook: " + where_to_write('DEVICE = "auto"')


def pick_device(name: str | torch.device = "auto") -> torch.device:
    """The torch device for "auto", "cpu", "cuda", "cuda:1" or "mps".

    "auto" takes a CUDA GPU when there is one, else the CPU. It never takes Apple's GPU (mps), where results have
    differed from the CPU's without an error; ask for it by name and you get it, with a warning.
    An unknown name, or a device that this machine lacks, raises ValueError.
    """
    import torch

    if str(name) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        raise ValueError(
            f"unknown device {name!r}; use 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps'. {_IN_A_NOTEBOOK}"
        ) from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            found = f"it sees {count} CUDA GPU(s)" if count else "it sees no CUDA GPU"
            raise ValueError(
                f"device {str(device)!r} was asked for, but torch {torch.__version__} cannot use it: {found}. "
                f"Use 'auto' or 'cpu', or install a driver and a CUDA build of torch. {_IN_A_NOTEBOOK}"
            )
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise ValueError(
                "device 'mps' was asked for, but this machine has no Apple GPU that torch can use; use 'cpu'. "
                f"{_IN_A_NOTEBOOK}"
            )
        warnings.warn("on 'mps' results can differ from the CPU's; if a check fails, try device 'cpu'", stacklevel=2)
    elif device.type != "cpu":
        raise ValueError(
            f"device {str(device)!r} is not supported; use 'auto', 'cpu', 'cuda' or 'mps'. {_IN_A_NOTEBOOK}"
        )
    return device


def describe_device(device: str | torch.device = "auto") -> str:
    """One line about the device: its name, memory, and for a CPU the threads that torch uses."""
    import torch

    device = pick_device(device)
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        free, total = torch.cuda.mem_get_info(device)
        return (
            f"GPU {properties.name}, {total / 2**30:.1f} GiB ({free / 2**30:.1f} GiB free), torch {torch.__version__}"
        )
    if device.type == "mps":
        return f"Apple GPU (mps), {total_memory() / 2**30:.1f} GiB shared with the CPU, torch {torch.__version__}"
    return (
        f"CPU {cpu_name()}, {torch.get_num_threads()} thread(s), {total_memory() / 2**30:.1f} GiB "
        f"({available_memory() / 2**30:.1f} GiB free), torch {torch.__version__}"
    )


# --- time ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timing:
    """Seconds of `n` runs of the same thing."""

    median: float
    best: float
    worst: float
    n: int

    @classmethod
    def of(cls, seconds: list[float]) -> Timing:
        """Summarise single times; an empty list raises ValueError."""
        if not seconds:
            raise ValueError("no times to summarise: repeats must be at least 1")
        return cls(statistics.median(seconds), min(seconds), max(seconds), len(seconds))

    def __str__(self) -> str:
        units = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
        unit = next((name for name, size in units.items() if self.median >= size), "ns")
        scaled = [value / units[unit] for value in (self.median, self.best, self.worst)]
        median, best, worst = (f"{value:.3g}" if value < 999.5 else f"{value:.0f}" for value in scaled)  # not 1e+03
        return f"{median} {unit} (range {best} to {worst} {unit}, n = {self.n})"


def seconds_of(fn: Callable[[], Any], device: str | torch.device = "cpu") -> float:
    """Seconds that one call of `fn` takes, the work that it queues on a GPU included.

    On "cuda" two events on the current stream give the GPU's own time; elsewhere the clock is perf_counter, after
    waiting for an Apple GPU where that is the device. `device` is where `fn` computes.
    """
    device = _known(device)
    if device.startswith("cuda"):
        import torch

        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        with torch.cuda.device(device):
            torch.cuda.synchronize()
            start.record()
            fn()
            end.record()
            torch.cuda.synchronize()
        return start.elapsed_time(end) / 1e3
    synchronize(device)
    started = time.perf_counter()
    fn()
    synchronize(device)
    return time.perf_counter() - started


def _known(device: str | torch.device) -> str:
    """The device as text. ValueError for one that this machine lacks; the CPU, timed most, is not looked up."""
    return "cpu" if str(device) == "cpu" else str(pick_device(device))


def synchronize(device: str | torch.device) -> None:
    """Wait until the work queued on a GPU is done; on a CPU there is nothing to wait for."""
    kind = _known(device).partition(":")[0]
    if kind in ("cuda", "mps"):
        import torch

        getattr(torch, kind).synchronize()


def measure(fn: Callable[[], Any], repeats: int = 5, warmup: int = 1, device: str | torch.device = "cpu") -> Timing:
    """Call `fn` `warmup` times without a clock, then `repeats` times with one."""
    return interleave({"": fn}, repeats, warmup, device)[""]


def interleave(
    functions: Mapping[str, Callable[[], Any]], repeats: int = 5, warmup: int = 1, device: str | torch.device = "cpu"
) -> dict[str, Timing]:
    """Time several functions in turn, round by round, and return {name: Timing}.

    When the machine slows down for a while, all of them meet it, so their ratio stays fair. Each round starts with
    another function, so that none always runs right after the same one. repeats < 1 or warmup < 0 raises ValueError.
    """
    repeats, warmup = whole("repeats", repeats, least=1), whole("warmup", warmup)
    for fn in functions.values():
        for _ in range(warmup):
            fn()
    names = list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(repeats):
        first = round_number % max(len(names), 1)
        for name in names[first:] + names[:first]:
            seconds[name].append(seconds_of(functions[name], device))
    return {name: Timing.of(times) for name, times in seconds.items()}


# --- memory ----------------------------------------------------------------------------------------------------------


def peak_memory(device: str | torch.device = "cpu") -> int:
    """Bytes at the highest point so far: of this whole process on a CPU, of torch's tensors on a CUDA GPU.

    The GPU's mark can be set back with torch.cuda.reset_peak_memory_stats(); the process's cannot.
    """
    if _known(device).startswith("cuda"):
        import torch

        return torch.cuda.max_memory_allocated(device)
    return peak_process_memory()


@dataclass(frozen=True)
class Bandwidth:
    """How fast this machine streams through memory: bytes per second of each kernel, and of the best one."""

    kernels: dict[str, float]
    n_bytes: int
    device: str
    threads: int

    @property
    def best(self) -> float:
        """Bytes per second of the fastest kernel: the limit to compare with."""
        return max(self.kernels.values())

    def __str__(self) -> str:
        each = ", ".join(f"{name} {rate / 1e9:.1f}" for name, rate in self.kernels.items())
        where = self.device if self.device != "cpu" else f"cpu, {self.threads} thread(s)"
        return f"{self.best / 1e9:.1f} GB/s ({each}; tensor of {self.n_bytes / 1e6:.0f} MB, {where})"


def read_bandwidth(device: str | torch.device = "cpu", seconds: float = 0.3) -> Bandwidth:
    """Measure the memory bandwidth with four streaming kernels, for about `seconds`; the best of them is the limit.

    sum, max and a matrix-vector product read a tensor once; copy reads one and writes another, counted as two passes.
    No single kernel is the limit everywhere: on one machine sum was fastest, on another copy. The best run of each
    counts, since anything else that runs can only take bandwidth away. The tensor is at least four times the
    last-level cache, so that it does not stay there, and at most an eighth of the free memory.
    """
    import torch

    device, seconds = pick_device(device), amount("seconds", seconds)
    n_bytes = streaming_bytes(device)
    width = 4096  # floats in a row of the matrix
    rows = max(n_bytes // 4 // width, 1)
    matrix = torch.ones(rows, width, device=device)
    target = torch.empty_like(matrix)
    vector = torch.ones(width, device=device)
    n_bytes = matrix.nbytes
    kernels: dict[str, tuple[Callable[[], Any], int]] = {
        "sum": (matrix.sum, n_bytes),
        "max": (matrix.amax, n_bytes),
        "copy": (lambda: target.copy_(matrix), 2 * n_bytes),
        "matvec": (lambda: torch.mv(matrix, vector), n_bytes),
    }
    fastest = dict.fromkeys(kernels, float("inf"))
    for fn, _ in kernels.values():
        fn()
    deadline = time.perf_counter() + seconds
    rounds = 0
    while rounds < 2 or time.perf_counter() < deadline:
        for name, (fn, _) in kernels.items():
            fastest[name] = min(fastest[name], seconds_of(fn, device))
        rounds += 1
    rates = {name: moved / fastest[name] for name, (_, moved) in kernels.items()}
    return Bandwidth(rates, n_bytes, str(device), torch.get_num_threads())


def streaming_bytes(device: torch.device) -> int:
    """Size of the tensor that `read_bandwidth` streams: beyond the cache, within the free memory."""
    if device.type == "cuda":
        import torch

        free, _ = torch.cuda.mem_get_info(device)
        cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 2**26)
        wanted = max(4 * cache, 2**30)
    else:
        free, wanted = available_memory(), min(max(4 * cpu_cache_bytes(), 2**26), 2**29)
    return min(wanted, free // 8)
