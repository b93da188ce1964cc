"""Wrong: append concatenates, so that every append copies the cache and earlier views are left behind."""
# mistake: append copies

import numpy as np


class KVCache:
    def __init__(self, n_layers, n_kv_heads, max_len, d_head):
        self.shape, self.max_len = (n_kv_heads, d_head), max_len
        self.k = [np.zeros((n_kv_heads, 0, d_head)) for _ in range(n_layers)]
        self.v = [np.zeros((n_kv_heads, 0, d_head)) for _ in range(n_layers)]

    def append(self, layer, k, v):
        if k.shape != v.shape or k.ndim != 3 or (k.shape[0], k.shape[2]) != self.shape:
            raise ValueError("wrong shape")
        if self.length(layer) + k.shape[1] > self.max_len:
            raise ValueError("no room")
        self.k[layer] = np.concatenate([self.k[layer], k], axis=1)
        self.v[layer] = np.concatenate([self.v[layer], v], axis=1)

    def view(self, layer):
        if not 0 <= layer < len(self.k):
            raise ValueError("no such layer")
        return self.k[layer], self.v[layer]

    def length(self, layer):
        return self.view(layer)[0].shape[1]

    def truncate(self, length):
        longest = max(k.shape[1] for k in self.k)
        if length < 0 or length > longest:
            raise ValueError("cannot keep that many")
        self.k = [k[:, :length] for k in self.k]
        self.v = [v[:, :length] for v in self.v]
