"""Right: K and V in one array."""

import numpy as np


class KVCache:
    def __init__(self, n_layers, n_kv_heads, max_len, d_head):
        self.store = np.empty((n_layers, 2, n_kv_heads, max_len, d_head))
        self.filled = dict.fromkeys(range(n_layers), 0)

    def length(self, layer):
        if layer not in self.filled:
            raise ValueError(f"no layer {layer}")
        return self.filled[layer]

    def append(self, layer, k, v):
        start = self.length(layer)
        both = np.stack([k, v])
        _, _, heads, room, width = self.store.shape
        if both.ndim != 4 or (both.shape[1], both.shape[3]) != (heads, width) or start + both.shape[2] > room:
            raise ValueError(f"cannot store {both.shape} after {start} of {room}")
        self.store[layer, :, :, start : start + both.shape[2]] = both
        self.filled[layer] += both.shape[2]

    def view(self, layer):
        k, v = (
            self.store[layer, :, :, : self.length(layer)] if layer in self.filled else self.store[:, self.length(layer)]
        )
        return k, v

    def truncate(self, length):
        if not 0 <= length <= max(self.filled.values()):
            raise ValueError(f"cannot keep {length}")
        self.filled = {layer: min(n, length) for layer, n in self.filled.items()}
