"""Grade on several machines with dask.distributed: a job's bytes go to a worker, JSON comes back and is checked.

A worker gets work once it has shown that it can isolate answers and has the same grader. Each of its threads has a
process of its own that grades (`pool.py`). One that is lost costs only the hand-ins that it had: these are tried once
more elsewhere. dask's messages are pickles: scheduler and workers are machines that you trust.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from . import jail
from .job import Job
from .pool import DONE, FAILED, TRIES, Fault, Pool, hard_limit
from .results import Result
from .version import grader_version

CONNECT_SECONDS = 30
WAIT_SECONDS = 60.0  # for a first or another worker
PROBE_SECONDS = 180.0  # for a worker to say what it is: it imports numpy, and starts a jail

MISSING = "dask.distributed is not installed: run `make instructor` once, then this again."


def probe(units: list[str], isolated: bool) -> dict[str, Any]:
    """What a worker says of itself: why it can't isolate answers, or ""; and its grader's version by unit."""
    why = jail.unavailable() if isolated else None
    return {"jail": why or "", "graders": {unit: grader_version(unit) for unit in units}}


def work(data: bytes) -> bytes:
    """Grade a job, in a process of the worker's thread. The answer is a mark for success or failure, and its content."""
    ((_, outcome),) = list(_pool().run([Job.from_json(data)]))
    return FAILED + outcome.why.encode() if isinstance(outcome, Fault) else DONE + outcome.to_json()


_mine = threading.local()


def _pool() -> Pool:
    """The pool of this thread: one process."""
    if not hasattr(_mine, "pool"):
        _mine.pool = Pool(1)
        atexit.register(_mine.pool.close)
    pool: Pool = _mine.pool
    return pool


async def serve(address: str, jobs: int, tls: Any = None) -> None:
    """Be a worker of a scheduler until that ends. Raises RuntimeError when it can't be reached or nothing is isolated."""
    why = jail.unavailable()
    if why:
        raise RuntimeError(f"Answers can't be isolated here: {why}")
    try:
        from distributed import Worker
    except ImportError:
        raise RuntimeError(MISSING) from None
    try:
        async with Worker(
            address, nthreads=jobs, security=tls, memory_limit=0, dashboard=False, death_timeout=CONNECT_SECONDS
        ) as worker:
            print(f"{worker.address} grades for {address}, {jobs} at a time", flush=True)
            await worker.finished()
    except (OSError, TypeError, ValueError) as error:
        raise RuntimeError(f"The scheduler {address} can't be reached ({error}).") from None


def security(ca_file: str | None, cert: str | None, key: str | None) -> Any:
    """dask's TLS settings for a client or a worker; None without TLS. Raises ValueError when a file is not named."""
    if not (ca_file or cert or key):
        return None
    if not (ca_file and cert and key):
        raise ValueError("TLS needs all of --tls-ca-file, --tls-cert and --tls-key")
    from distributed.security import Security

    return Security(
        tls_ca_file=ca_file,
        tls_client_cert=cert,
        tls_client_key=key,
        tls_worker_cert=cert,
        tls_worker_key=key,
        require_encryption=True,
    )


@dataclass
class _Running:
    """A job that a worker has."""

    job: Job
    tries: int
    worker: str
    until: float


class Cluster:
    """The workers of a scheduler. Use as a context manager. Raises RuntimeError when the scheduler can't be reached."""

    def __init__(
        self,
        address: str,
        units: Iterable[str],
        isolated: bool = True,
        tls: Any = None,
        say: Callable[[str], object] = print,
    ) -> None:
        try:
            from distributed import Client
        except ImportError:
            raise RuntimeError(MISSING) from None
        try:
            self._client = Client(
                address, security=tls, timeout=CONNECT_SECONDS, set_as_default=False, name="kvgrade-grade"
            )
        except (OSError, TypeError, ValueError) as error:
            raise RuntimeError(
                f"The scheduler {address} can't be reached ({error}): start one with `dask scheduler`, and workers "
                "with `python -m kvgrade worker ADDRESS`."
            ) from None
        self._say = say
        self._graders = {unit: grader_version(unit) for unit in units}
        self._isolated = isolated
        self._probes: dict[str, tuple[Any, float]] = {}
        self._threads: dict[str, int] = {}  # of the workers that get work
        self._refused: dict[str, str] = {}
        self._running: dict[Any, _Running] = {}
        self._news = threading.Event()  # something has ended

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.cancel([*self._running, *(future for future, _ in self._probes.values())], force=True)
        self._client.close(timeout=5)

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Result | Fault]]:
        """Outcomes as they come. Raises RuntimeError when no worker is left that may grade."""
        waiting, again = iter(jobs), deque[tuple[Job, int]]()
        seen = time.monotonic()  # when there was a worker last
        following = next(waiting, None)
        if following and not self._client.nthreads():
            self._say(
                f"waiting for workers, {WAIT_SECONDS:.0f} s: start some with `python -m kvgrade worker ADDRESS`. Workers "
                "of a scheduler that has ended must be started again."
            )
        while following or again or self._running:
            self._look()
            for worker in self._free():
                if again:
                    self._send(*again.popleft(), worker)
                elif following:
                    self._send(following, 1, worker)
                    following = next(waiting, None)
            if self._threads or self._probes:
                seen = time.monotonic()
            elif time.monotonic() - seen > (0 if self._refused else WAIT_SECONDS):
                raise RuntimeError(self._nobody())
            self._news.wait(timeout=1.0)
            self._news.clear()
            for future in [future for future in self._running if future.done()]:
                had = self._running.pop(future)
                outcome = outcome_of(future, had.job)
                if isinstance(outcome, Lost):
                    if had.tries < TRIES:
                        again.append((had.job, had.tries + 1))
                        continue
                    outcome = Fault(outcome.why)
                yield had.job, outcome

    def _send(self, job: Job, tries: int, worker: str) -> None:
        def graded(data: bytes) -> bytes:  # nested, so that it travels by value: a scheduler need not have kvgrade
            from kvgrade import cluster

            return cluster.work(data)

        future = self._client.submit(graded, job.to_json(), workers=[worker], pure=False, retries=0)
        future.add_done_callback(lambda _: self._news.set())
        self._running[future] = _Running(job, tries, worker, time.monotonic() + TRIES * hard_limit(job) + WAIT_SECONDS)

    def _free(self) -> list[str]:
        """Workers with a free thread, each as often as it has one."""
        busy = [had.worker for had in self._running.values()]
        return [w for w, threads in sorted(self._threads.items()) for _ in range(threads - busy.count(w))]

    def _look(self) -> None:
        """See who came and who went; the jobs of lost workers are cancelled."""
        try:
            there: dict[str, int] = self._client.nthreads()
        except (OSError, RuntimeError) as error:
            raise RuntimeError(f"The scheduler is gone ({error}). Results are kept: run this again.") from None
        for worker in [w for w in self._threads if w not in there]:
            del self._threads[worker]
            self._say(f"worker {worker} is gone")
        for future, had in self._running.items():
            if had.worker in self._threads and time.monotonic() > had.until:
                self._refuse(had.worker, "it did not answer in time")
            if had.worker not in self._threads and not future.done():
                future.cancel(force=True)  # done now; `run` finds it lost
        for worker in [w for w in self._probes if w not in there]:
            del self._probes[worker]
        for worker in there:
            if worker not in self._threads and worker not in self._refused and worker not in self._probes:
                self._probes[worker] = (self._ask(worker), time.monotonic() + PROBE_SECONDS)
        for worker, (future, until) in list(self._probes.items()):
            if future.done() or time.monotonic() > until:
                del self._probes[worker]
                why = self._why_not(future)
                if why:
                    self._refuse(worker, why)
                else:
                    self._threads[worker] = there[worker]

    def _ask(self, worker: str) -> Any:
        def probed(units: list[str], isolated: bool) -> dict[str, Any]:
            from kvgrade import cluster

            return cluster.probe(units, isolated)

        future = self._client.submit(probed, list(self._graders), self._isolated, workers=[worker], pure=False)
        future.add_done_callback(lambda _: self._news.set())
        return future

    def _why_not(self, future: Any) -> str:
        """Why a worker gets no work, or ""."""
        if not future.done():
            future.cancel(force=True)
            return "it did not answer in time"
        if future.status != "finished":
            return f"kvgrade does not run there ({future.exception()})" if future.status == "error" else "it went away"
        said = future.result()
        if said["jail"]:
            return f"it can't isolate answers: {said['jail']}"
        if said["graders"] != self._graders:
            return "it has another version of the grader or of the cases, of Python, numpy or torch"
        return ""

    def _refuse(self, worker: str, why: str) -> None:
        self._threads.pop(worker, None)
        self._refused[worker] = why
        self._say(f"worker {worker} gets no work: {why}")

    def _nobody(self) -> str:
        if not self._refused:
            return "The scheduler has no workers: start some with `python -m kvgrade worker ADDRESS`."
        return "No worker is left that may grade. Results are kept: put the workers right and run this again."


def outcome_of(future: Any, job: Job) -> Result | Fault | Lost:
    """What a worker sent for a job, checked."""
    if future.status != "finished":
        error = future.exception() if future.status == "error" else "it is gone"
        return Lost(f"the worker that graded it failed ({error})")
    try:
        reply = future.result()
        kind, content = reply[:1], reply[1:]
        if kind == FAILED:
            return Fault(content.decode())
        result = Result.from_json(content)
    except (ValueError, TypeError, AttributeError):
        return Lost("the worker's answer can't be read")
    return result if result.key == job.key else Lost("the worker sent the result of another hand-in")


@dataclass(frozen=True)
class Lost:
    """Nothing came of a job on a worker."""

    why: str


__all__ = ["Cluster", "Lost", "outcome_of", "probe", "security", "serve", "work"]
