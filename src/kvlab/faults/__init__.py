"""Named faults: small, real mistakes that can be planted in a kernel to see which check notices.

    with faults.plant("position_off_by_one"):
        ...

Nothing is faulty unless planted, and the kernels hold no switches: planting swaps one function for a wrong one,
wherever kvlab has imported it, and swaps it back. `make mutate` plants each in turn and lists the tests that notice.
"""

from contextlib import AbstractContextManager

from kvlab.faults import choosing, counting, meaning, model, serving, speculation
from kvlab.faults.plant import Fault, planted

__all__ = ["FAULTS", "Fault", "plant"]

FAULTS: dict[str, Fault] = {
    fault.name: fault for area in (model, choosing, serving, speculation, meaning, counting) for fault in area.FAULTS
}


def plant(name: str) -> AbstractContextManager[Fault]:
    """Plant a fault for the length of the block.

    Raises ValueError for an unknown name, and where a fault is planted already: ended in the wrong order, the two
    would leave one behind.
    """
    return planted(name, FAULTS)
