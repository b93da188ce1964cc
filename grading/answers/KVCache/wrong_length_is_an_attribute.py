"""Wrong: the list of lengths hides the method of the same name."""
# mistake: length is an attribute

import numpy as np


class KVCache:
    def __init__(self, n_layers, n_kv_heads, max_len, d_head):
        self.k = np.zeros((n_layers, n_kv_heads, max_len, d_head))
        self.v = np.zeros_like(self.k)
        self.length = [0] * n_layers

    def append(self, layer, k, v):
        if not 0 <= layer < len(self.length):
            raise ValueError("no such layer")
        if k.shape != v.shape or k.ndim != 3 or (k.shape[0], k.shape[2]) != (self.k.shape[1], self.k.shape[3]):
            raise ValueError("wrong shape")
        a, b = self.length[layer], self.length[layer] + k.shape[1]
        if b > self.k.shape[2]:
            raise ValueError("no room")
        self.k[layer][:, a:b] = k
        self.v[layer][:, a:b] = v
        self.length[layer] = b

    def view(self, layer):
        if not 0 <= layer < len(self.length):
            raise ValueError("no such layer")
        m = self.length[layer]
        return self.k[layer][:, :m], self.v[layer][:, :m]

    def length(self, layer):
        if not 0 <= layer < len(self.length):
            raise ValueError("no such layer")
        return self.length[layer]

    def truncate(self, length):
        if length < 0 or length > max(self.length):
            raise ValueError("cannot keep that many")
        self.length = [min(m, length) for m in self.length]
