"""Right: no counts; looks who holds a block; the smallest free id; arrays as tables."""

import numpy as np


class BlockAllocator:
    def __init__(self, n_blocks, block_size):
        if min(n_blocks, block_size) < 0:
            raise ValueError("sizes are not negative")
        self.n_blocks, self.block_size = n_blocks, block_size
        self.held = {}

    def _free_ids(self):
        taken = {block for blocks, _ in self.held.values() for block in blocks}
        return [block for block in range(self.n_blocks) if block not in taken]

    def _get(self, seq):
        try:
            return self.held[seq]
        except KeyError:
            raise ValueError(f"{seq!r} is unknown") from None

    def _new(self):
        free = self._free_ids()
        if not free:
            raise MemoryError("out of blocks")
        return free[0]

    def append(self, seq):
        blocks, length = self.held.get(seq, ((), 0))
        if length == len(blocks) * self.block_size:
            blocks = (*blocks, self._new())
        elif sum(blocks[-1] in other for other, _ in self.held.values()) > 1:
            blocks = (*blocks[:-1], self._new())
        self.held[seq] = (blocks, length + 1)
        return self.held[seq]

    def fork(self, parent, child):
        if child in self.held:
            raise ValueError(f"{child!r} is taken")
        self.held[child] = self._get(parent)

    def free(self, seq):
        self._get(seq)
        self.held.pop(seq)

    def block_table(self, seq):
        return np.array(self._get(seq)[0])

    def length(self, seq):
        return self._get(seq)[1]

    @property
    def n_free(self):
        return len(self._free_ids())
