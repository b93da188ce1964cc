"""Chooses the port of a server, and keeps two `kvlab lab` that start together from choosing the same one."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from kvlab.cli.errors import CommandError
from kvlab.paths import cache_dir

FIRST_PORT = 8888


def port_is_free(port: int) -> bool:
    """Whether a server could listen on this port of the loopback interface now."""
    with socket.socket() as probe:
        if os.name == "posix":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def reserve_port(wanted: int | None) -> Iterator[int]:
    """The wanted port, or the next free one from 8888 on. Raises CommandError when there is none.

    Inside the `with`, and in a program that takes this one's place (exec), no other `kvlab lab` of this user gets it:
    Jupyter needs a second until it listens.
    """
    if wanted is not None and not 1 <= wanted <= 65535:
        raise CommandError(f"{wanted} is no port: a port is a number from 1 to 65535.")
    for port in range(FIRST_PORT, FIRST_PORT + 100) if wanted is None else [wanted]:
        lock = _lock(port)
        if lock is None:
            continue
        try:
            if port_is_free(port):
                yield port
                return
        finally:
            if lock >= 0:
                os.close(lock)
    if wanted is None:
        raise CommandError(f"No port from {FIRST_PORT} to {FIRST_PORT + 99} is free. Choose one with --port.")
    raise CommandError(
        f"Port {wanted} is in use or not allowed. Close what uses it, choose another one with --port, "
        "or leave --port out to get a free one."
    )


def _lock(port: int) -> int | None:
    """An open file that locks this port among this user's commands; None when another one holds it.

    -1 where files cannot be locked: then only the port itself can tell.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return -1
    try:
        handle = os.open(cache_dir() / f"port-{port}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return -1
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    except OSError:  # a file system without locks
        os.close(handle)
        return -1
    os.set_inheritable(handle, True)
    return handle
