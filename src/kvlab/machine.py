"""Facts about the computer: memory, cache, processor. No torch here."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import psutil

_SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}
_CGROUP = Path("/sys/fs/cgroup")  # where a container's own memory limit is written (cgroup version 2)


def cpu_name() -> str:
    """The processor's name, or its architecture where the name is not to be found."""
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def total_memory() -> int:
    """Bytes of memory that this process may use: the machine's, or the container's limit when that is lower."""
    total, limit = int(psutil.virtual_memory().total), _cgroup("memory.max")
    return total if limit is None else min(total, limit)


def available_memory() -> int:
    """Bytes of memory that are free or can be freed now, within the container's limit where there is one."""
    available = int(psutil.virtual_memory().available)
    limit, used = _cgroup("memory.max"), _cgroup("memory.current")
    return available if limit is None or used is None else max(min(available, limit - used), 0)


def cpu_cache_bytes() -> int:
    """Bytes of the largest cache of the first processor; 32 MiB where that is not to be found."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        text = _read(path).strip()
        if text[-1:] in _SIZES and text[:-1].isdigit():
            sizes.append(int(text[:-1]) * _SIZES[text[-1]])
    return max(sizes, default=32 * 2**20)


def peak_process_memory() -> int:
    """Bytes of resident memory at this process's highest point."""
    # Linux's ru_maxrss also remembers the parent process before exec: a kernel would seem as large as its server.
    for line in _read("/proc/self/status").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    if sys.platform == "win32":
        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # macOS counts in bytes, others in KiB


def _read(path: str | Path) -> str:
    """The text of a file, or "" where there is none that can be read (another system, a sandbox)."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _cgroup(name: str) -> int | None:
    text = _read(_CGROUP / name).strip()
    return int(text) if text.isdigit() else None  # "max" means no limit
