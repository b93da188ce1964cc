"""Right: hands out any free block; keeps a set of free ids."""

import random


class BlockAllocator:
    def __init__(self, n_blocks, block_size):
        if n_blocks < 0 or block_size < 0:
            raise ValueError("no negative sizes")
        self.block_size = block_size
        self.free_ids = set(range(n_blocks))
        self.users = {}
        self.seqs = {}

    def _take(self):
        if not self.free_ids:
            raise MemoryError
        block = random.choice(sorted(self.free_ids))
        self.free_ids.remove(block)
        self.users[block] = 1
        return block

    def _release(self, block):
        self.users[block] -= 1
        if not self.users[block]:
            self.free_ids.add(block)

    def append(self, seq):
        table, tokens = self.seqs.get(seq, ([], 0))
        if tokens % self.block_size == 0:
            table = [*table, self._take()]
        elif self.users[table[-1]] > 1:
            mine = self._take()
            self._release(table[-1])
            table = [*table[:-1], mine]
        self.seqs[seq] = table, tokens + 1

    def _known(self, seq):
        if seq not in self.seqs:
            raise ValueError(seq)
        return self.seqs[seq]

    def fork(self, parent, child):
        table, tokens = self._known(parent)
        if child in self.seqs:
            raise ValueError(child)
        for block in table:
            self.users[block] += 1
        self.seqs[child] = table, tokens

    def free(self, seq):
        for block in self._known(seq)[0]:
            self._release(block)
        del self.seqs[seq]

    def block_table(self, seq):
        return list(self._known(seq)[0])

    def length(self, seq):
        return self._known(seq)[1]

    @property
    def n_free(self):
        return len(self.free_ids)
