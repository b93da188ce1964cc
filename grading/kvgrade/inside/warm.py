"""A process that has imported what answers need, and forks another one for each jail.

It runs on the host, beside the grader and as the same user, started anew with an empty memory: it knows no seed, case
or oracle, is sent none, and never runs a learner's code. What it forks steps into a jail that bubblewrap has built
(see `enter`), and runs `worker.main` there.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket

from . import confine, enter

MOST_FILES = 64  # open in this process
LOOK_EVERY = 5.0  # seconds between looks whether the grader lives
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


def main(channel_fd: int) -> None:
    """Fork for each request until the grader closes the channel, or is gone."""
    grader = os.getppid()
    confine.make_undumpable()
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    # A process in a jail is adopted here when the one between has left. Ignored children leave no zombies, and the
    # kernel holds a jail's last process until all of them are gone.
    confine.prctl(_SUBREAPER, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _refuse_shared_memory()
    gc.collect()
    gc.freeze()  # no collection writes into pages that all forks share
    with socket.socket(fileno=channel_fd) as channel:
        while True:
            if not select.select([channel], [], [], LOOK_EVERY)[0]:
                if os.getppid() != grader:
                    return  # and a child of the grader still holds the other end
                continue
            message, fds, _, _ = socket.recv_fds(channel, 1 << 16, 1 + enter.PIPES)
            if not message:
                return
            try:
                if os.fork() == 0:
                    enter.step_in(json.loads(message), fds)
            finally:
                for fd in fds:
                    os.close(fd)


def _refuse_shared_memory() -> None:
    """Memory that forks share with each other would join one jail to the next."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            mode = line.split()[1]
            if "w" in mode and mode.endswith("s"):
                raise RuntimeError(f"the imported libraries share memory with other processes: {line.strip()}")
