"""`python -m kvgrade worker tcp://…`: let this machine grade for a dask scheduler."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "worker",
        help="grade on this machine for a dask scheduler",
        description="Grade hand-ins that `python -m kvgrade grade --scheduler` sends, until the scheduler ends or "
        "Ctrl-C. dask's messages are pickles, so whoever reaches the scheduler can run programs here: use it only "
        "between machines that you trust, with TLS.",
    )
    parser.add_argument("scheduler", metavar="ADDRESS", help="the scheduler, such as tcp://192.0.2.1:8786")
    parser.add_argument("--jobs", type=int, metavar="N", help="hand-ins at a time; default: the number of cores")
    for name in ("ca-file", "cert", "key"):
        parser.add_argument(f"--tls-{name}", metavar="FILE", help="TLS, as dask's option of that name")
    parser.set_defaults(execute=execute)


def execute(args: argparse.Namespace) -> int:
    import asyncio

    from .. import cluster

    jobs = len(os.sched_getaffinity(0)) if args.jobs is None else args.jobs
    if jobs < 1:
        raise ValueError(f"--jobs {jobs} is not possible: it must be at least 1")
    security = cluster.security(args.tls_ca_file, args.tls_cert, args.tls_key)
    try:
        asyncio.run(cluster.serve(args.scheduler, jobs, security))
    except KeyboardInterrupt:
        print("\nStopped. Hand-ins that were under way go to another worker.", file=sys.stderr)
        return 130
    return 0
