"""Wrong: only k is looked at."""
# mistake: V unchecked

import numpy as np


class KVCache:
    def __init__(self, n_layers, n_kv_heads, max_len, d_head):
        self.k = np.zeros((n_layers, n_kv_heads, max_len, d_head))
        self.v = np.zeros_like(self.k)
        self.n = [0] * n_layers

    def append(self, layer, k, v):
        if not 0 <= layer < len(self.n):
            raise ValueError("no such layer")
        if k.ndim != 3 or (k.shape[0], k.shape[2]) != (self.k.shape[1], self.k.shape[3]):
            raise ValueError("wrong shape")
        a, b = self.n[layer], self.n[layer] + k.shape[1]
        if b > self.k.shape[2]:
            raise ValueError("no room")
        self.k[layer][:, a:b] = k
        self.v[layer][:, a:b] = v
        self.n[layer] = b

    def view(self, layer):
        if not 0 <= layer < len(self.n):
            raise ValueError("no such layer")
        m = self.n[layer]
        return self.k[layer][:, :m], self.v[layer][:, :m]

    def length(self, layer):
        if not 0 <= layer < len(self.n):
            raise ValueError("no such layer")
        return self.n[layer]

    def truncate(self, length):
        if length < 0 or length > max(self.n):
            raise ValueError("cannot keep that many")
        self.n = [min(m, length) for m in self.n]
