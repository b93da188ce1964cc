"""Wrong: ids are 1 to n."""
# mistake: ids from 1


class BlockAllocator:
    def __init__(self, n_blocks, block_size):
        if n_blocks < 0 or block_size < 0:
            raise ValueError("negative size")
        self.size = block_size
        self.unused = list(range(1, n_blocks + 1))[::-1]
        self.count = [0] * (n_blocks + 1)
        self.tables = {}
        self.lengths = {}

    def append(self, seq):
        table, n = self.tables.get(seq, []), self.lengths.get(seq, 0)
        if n % self.size == 0:
            table.append(self.take())
        elif self.count[table[-1]] > 1:
            block = self.take()
            self.count[table[-1]] -= 1
            table[-1] = block
        self.tables[seq] = table
        self.lengths[seq] = n + 1

    def take(self):
        if not self.unused:
            raise MemoryError("no block is free")
        block = self.unused.pop()
        self.count[block] = 1
        return block

    def known(self, seq):
        if seq not in self.tables:
            raise ValueError(f"no sequence {seq}")

    def fork(self, parent, child):
        self.known(parent)
        if child in self.tables:
            raise ValueError(f"{child} exists")
        self.tables[child] = list(self.tables[parent])
        self.lengths[child] = self.lengths[parent]
        for block in self.tables[child]:
            self.count[block] += 1

    def free(self, seq):
        self.known(seq)
        for block in self.tables[seq]:
            self.count[block] -= 1
            if self.count[block] == 0:
                self.unused.append(block)
        del self.tables[seq], self.lengths[seq]

    def block_table(self, seq):
        self.known(seq)
        return self.tables[seq]

    def length(self, seq):
        self.known(seq)
        return self.lengths[seq]

    @property
    def n_free(self):
        return len(self.unused)
