"""Clocks and memory. No test depends on how fast this machine is."""

import os
import re
import subprocess
import sys
import time

import pytest
import torch

from kvlab import machine, profiling
from kvlab.profiling import Bandwidth, Timing


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A clock that moves only when told to."""
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def advance(seconds: float) -> None:
        now[0] += seconds

    return advance


def test_timing_summarises() -> None:
    assert Timing.of([3.0, 1.0, 2.0, 10.0]) == Timing(median=2.5, best=1.0, worst=10.0, n=4)
    with pytest.raises(ValueError, match="repeats"):
        Timing.of([])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        ([2.0, 1.5, 2.25], "2 s (range 1.5 to 2.25 s, n = 3)"),
        ([0.0123, 0.0119, 0.0140], "12.3 ms (range 11.9 to 14 ms, n = 3)"),
        ([5e-6], "5 µs (range 5 to 5 µs, n = 1)"),
        ([3e-9], "3 ns (range 3 to 3 ns, n = 1)"),
        ([0.002, 0.002, 1.5], "2 ms (range 2 to 1500 ms, n = 3)"),
        ([0.0], "0 ns (range 0 to 0 ns, n = 1)"),
    ],
)
def test_timing_prints_median_range_and_unit(seconds: list[float], text: str) -> None:
    assert str(Timing.of(seconds)) == text


def test_measure_counts_warmup_apart(fake_clock) -> None:  # type: ignore[no-untyped-def]
    durations = iter([50.0, 50.0, 1.0, 2.0, 9.0])  # the first two calls are slow, as first calls are
    timing = profiling.measure(lambda: fake_clock(next(durations)), repeats=3, warmup=2)
    assert timing == Timing(2.0, 1.0, 9.0, 3)
    assert next(durations, None) is None


def test_interleave_goes_round_by_round_and_rotates(fake_clock) -> None:  # type: ignore[no-untyped-def]
    calls: list[str] = []

    def work(name: str, seconds: float):  # type: ignore[no-untyped-def]
        def run() -> None:
            calls.append(name)
            fake_clock(seconds)

        return run

    result = profiling.interleave({"a": work("a", 1.0), "b": work("b", 2.0), "c": work("c", 4.0)}, 3, warmup=1)
    assert "".join(calls) == "abc" + "abc" + "bca" + "cab"
    assert {name: (t.median, t.n) for name, t in result.items()} == {"a": (1, 3), "b": (2, 3), "c": (4, 3)}
    assert profiling.interleave({}, 2) == {}


@pytest.mark.parametrize(("repeats", "warmup", "said"), [(0, 1, "repeats"), (1, -1, "warmup"), (2.5, 1, "repeats")])
def test_bad_counts_raise_before_anything_runs(repeats: int, warmup: int, said: str) -> None:
    calls: list[int] = []
    with pytest.raises(ValueError, match=f"{said} must be"):
        profiling.measure(lambda: calls.append(1), repeats, warmup)
    assert calls == []


def test_a_real_clock_gives_ordered_positive_times() -> None:
    timing = profiling.measure(lambda: sum(range(20_000)), repeats=4)
    assert 0 < timing.best <= timing.median <= timing.worst and timing.n == 4


def test_gpu_times_come_from_events_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU path with a stand-in for torch.cuda: what is recorded, in which order, and milliseconds to seconds."""
    log: list[str] = []

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("record")

        def elapsed_time(self, end: "Event") -> float:
            assert end is not self
            return 12.5

    class Device:
        def __init__(self, device: object) -> None:
            log.append(str(device))

        def __enter__(self) -> None: ...
        def __exit__(self, *_: object) -> None: ...

    monkeypatch.setattr(profiling, "_known", str)  # as if this machine had the GPU
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "device", Device)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: log.append("synchronize"))
    assert profiling.seconds_of(lambda: log.append("work"), torch.device("cuda:1")) == 0.0125
    assert log == ["cuda:1", "synchronize", "record", "work", "record", "synchronize"]


# --- devices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("present", [True, False])
def test_auto_takes_cuda_when_there_is_one_and_never_mps(monkeypatch: pytest.MonkeyPatch, present: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert profiling.pick_device("auto") == torch.device("cuda" if present else "cpu")
    assert profiling.pick_device(torch.device("cpu")) == profiling.pick_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize(("count", "message"), [(0, "no CUDA GPU"), (1, "1 CUDA GPU")])
def test_a_missing_gpu_is_named(monkeypatch: pytest.MonkeyPatch, count: int, message: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(ValueError, match=message):
        profiling.pick_device("cuda:1")
    if count:
        assert profiling.pick_device("cuda:0") == torch.device("cuda:0")


def test_mps_warns_where_it_exists_and_raises_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.warns(UserWarning, match="can differ"):
        assert profiling.pick_device("mps").type == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ValueError, match="no Apple GPU"):
        profiling.pick_device("mps")


@pytest.mark.parametrize("name", ["gpu", "", "meta"])
def test_unknown_devices_raise(name: str) -> None:
    with pytest.raises(ValueError, match="use 'auto', 'cpu'"):
        profiling.pick_device(name)


def test_the_device_is_described_with_threads_and_memory() -> None:
    text = profiling.describe_device("cpu")
    assert f"{torch.get_num_threads()} thread" in text and "GiB" in text and torch.__version__ in text


# --- memory and bandwidth --------------------------------------------------------------------------------------------


def test_peak_memory_rises_by_what_was_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: here, an earlier test may have been higher already."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    code = (
        "from kvlab import profiling\n"
        "before = profiling.peak_memory()\n"
        "block = bytearray(b'x') * 200_000_000\n"
        "print(before, profiling.peak_memory(), 'torch' in __import__('sys').modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after, torch_imported = result.stdout.split()
    assert 180e6 < int(after) - int(before) < 260e6
    assert torch_imported == "False"


def test_bandwidth_reports_bytes_of_each_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "streaming_bytes", lambda device: 2**22)
    monkeypatch.setattr(profiling, "seconds_of", lambda fn, device: 0.5)
    result = profiling.read_bandwidth("cpu", seconds=0)
    assert result.n_bytes == 2**22
    once = 2**22 / 0.5
    assert result.kernels == {"sum": once, "max": once, "copy": 2 * once, "matvec": once}
    assert result.best == 2 * once


def test_bandwidth_runs_for_real() -> None:
    result = profiling.read_bandwidth("cpu", seconds=0.05)
    assert all(rate > 0 for rate in result.kernels.values())
    assert re.match(
        r"[\d.]+ GB/s \(sum [\d.]+, max [\d.]+, copy [\d.]+, matvec [\d.]+; tensor of \d+ MB, ", str(result)
    )


def test_bandwidth_prints_gigabytes_not_gibibytes() -> None:
    text = str(Bandwidth({"sum": 47.5e9, "copy": 44e9}, 2**27, "cpu", 2))
    assert text == "47.5 GB/s (sum 47.5, copy 44.0; tensor of 134 MB, cpu, 2 thread(s))"


@pytest.mark.parametrize(
    ("cache", "free", "expected"),
    [
        (2**25, 2**40, 2**27),  # four times the cache
        (2**20, 2**40, 2**26),  # but never small
        (2**30, 2**40, 2**29),  # nor enormous
        (2**25, 2**28, 2**25),  # and never more than an eighth of what is free
    ],
)
def test_the_streamed_tensor_leaves_the_cache_but_fits(
    monkeypatch: pytest.MonkeyPatch, cache: int, free: int, expected: int
) -> None:
    monkeypatch.setattr(profiling, "cpu_cache_bytes", lambda: cache)
    monkeypatch.setattr(profiling, "available_memory", lambda: free)
    assert profiling.streaming_bytes(torch.device("cpu")) == expected


def test_a_container_limit_lowers_the_memory(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    unlimited = machine.total_memory()
    assert unlimited > 2**20 and machine.available_memory() <= unlimited
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert machine.total_memory() == 1_000_000 and machine.available_memory() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.total_memory() == unlimited


def test_the_cache_size_is_read_or_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.cpu_cache_bytes() >= 2**15
    monkeypatch.setattr(machine, "_read", lambda path: "")
    assert machine.cpu_cache_bytes() == 32 * 2**20
