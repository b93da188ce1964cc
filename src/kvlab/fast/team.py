"""A few threads that run one compiled function together, each with its own number."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

PASSED = 2**62  # a barrier's counter that lets everybody through


class Team:
    """`run(job)` calls job(0) here and job(1), ..., job(n - 1) in threads that stay; it returns when all are done.

    The jobs wait for each other inside, at a barrier that counts up `counter[0]`. So all must run at the same time:
    numba's own parallel loops do not promise that, and its default thread pool ends the process when two Python
    threads use it at once. One caller at a time.
    """

    def __init__(self, n: int, counter: Any) -> None:
        self.n, self.counter = n, counter
        self._pid = 0
        self._inboxes: list[SimpleQueue] = []
        self._threads: list[threading.Thread] = []
        self._done: SimpleQueue = SimpleQueue()

    def run(self, job: Callable[[int], Any], alone: bool = False) -> None:
        """Every number's job; with `alone` only job(0), for work too small to share."""
        self.counter[0] = 0
        if self.n == 1 or alone:
            job(0)
            return
        if self._pid != os.getpid():  # the first call, or a forked process, where threads do not live on
            self._start()
        try:
            for inbox in self._inboxes:
                inbox.put(job)
            job(0)
            errors = [self._done.get() for _ in self._inboxes]
        except BaseException:  # a Ctrl-C before job(0) began would leave the others waiting for it
            self.counter[0] = PASSED
            self._end()
            raise
        for error in errors:
            if error is not None:
                raise error

    def _start(self) -> None:
        self._pid, self._done = os.getpid(), SimpleQueue()
        self._inboxes = [SimpleQueue() for _ in range(1, self.n)]
        self._threads = [
            threading.Thread(target=serve, args=(inbox, self._done, number, self.counter), daemon=True)
            for number, inbox in enumerate(self._inboxes, start=1)
        ]
        for thread in self._threads:
            thread.start()

    def _end(self) -> None:
        """End the threads and wait for them; the next job starts new ones."""
        for inbox in self._inboxes:
            inbox.put(None)
        for thread in self._threads:
            thread.join()
        self._inboxes, self._threads, self._pid = [], [], 0

    def __del__(self) -> None:
        for inbox in self._inboxes:
            inbox.put(None)


def serve(inbox: SimpleQueue, done: SimpleQueue, number: int, counter: Any) -> None:
    """A thread's life: take a job, do it, say so; None ends it."""
    while (job := inbox.get()) is not None:
        try:
            job(number)
            done.put(None)
        except BaseException as error:
            counter[0] = PASSED  # nobody should wait for a job that has ended
            done.put(error)
        del job  # it holds the model
