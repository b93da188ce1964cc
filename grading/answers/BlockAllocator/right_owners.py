"""Right: each block has a set of owners; free blocks wait in a queue; tables as tensors."""

from collections import deque

import torch


class Block:
    def __init__(self, number):
        self.number = number
        self.owners = set()


class BlockAllocator:
    def __init__(self, n_blocks, block_size):
        if n_blocks < 0:
            raise ValueError("n_blocks")
        if block_size < 0:
            raise ValueError("block_size")
        self.block_size = block_size
        self.waiting = deque(Block(number) for number in range(n_blocks))
        self.sequences = {}

    def find(self, seq):
        if seq not in self.sequences:
            raise ValueError("this sequence does not exist")
        return self.sequences[seq]

    def append(self, seq):
        blocks, tokens = self.sequences.get(seq, ([], 0))
        writable = tokens % self.block_size > 0 and blocks[-1].owners == {seq}
        if not writable:
            if len(self.waiting) == 0:
                raise MemoryError("every block is taken")
            block = self.waiting.popleft()
            block.owners = {seq}
            if tokens % self.block_size:
                blocks.pop().owners.discard(seq)
            blocks.append(block)
        self.sequences[seq] = (blocks, tokens + 1)

    def fork(self, parent, child):
        blocks, tokens = self.find(parent)
        if child in self.sequences:
            raise ValueError("this sequence exists")
        for block in blocks:
            block.owners.add(child)
        self.sequences[child] = (blocks.copy(), tokens)

    def free(self, seq):
        blocks, _ = self.find(seq)
        del self.sequences[seq]
        for block in reversed(blocks):
            block.owners.remove(seq)
            if not block.owners:
                self.waiting.append(block)

    def block_table(self, seq):
        return torch.tensor([block.number for block in self.find(seq)[0]])

    def length(self, seq):
        return self.find(seq)[1]

    @property
    def n_free(self):
        return len(self.waiting)
