"""Start the untrusted side, as `python -I -B …/start.py numpy|torch warm SOCKET` on the host, or
`… alone CONTROL_IN CONTROL_OUT DATA_IN DATA_OUT COURSE` for answers that nothing isolates.

Of kvgrade only this folder is imported, and nothing of kvlab: what forks from here must know no answer.
"""

import signal
import sys
from pathlib import Path
from types import ModuleType

_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def main(kind: str, way: str, *words: str) -> None:
    package = ModuleType("kvgrade")  # the real one would bring the instructor's modules with it
    package.__path__ = [str(Path(__file__).resolve().parents[1])]
    sys.modules["kvgrade"] = package
    import numpy  # noqa: F401 - for all that is forked

    if kind == "torch":
        import torch

        torch.set_num_threads(1)
    from kvgrade.inside import confine, warm, worker

    if way == "warm":
        warm.main(int(words[0]))
    else:
        *pipes, course = words
        confine.prctl(_WITH_PARENT, signal.SIGKILL)  # as bubblewrap does for a jail: it ends with the grader
        worker.silence()
        worker.main([int(fd) for fd in pipes], course, jailed=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
