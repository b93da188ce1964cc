"""Right: loops over Python integers."""

import torch


def pack_int4(codes):
    values = codes.tolist()
    for value in values:
        if value not in range(-8, 8):
            raise ValueError(f"{value} has more than four bits")
    out = []
    for i, value in enumerate(values):
        if i % 2 == 0:
            out.append(value % 16)
        else:
            out[-1] += 16 * (value % 16)
    return torch.tensor(out, dtype=torch.uint8)


def unpack_int4(packed, n):
    out = []
    for byte in packed.tolist():
        out += [byte % 16, byte // 16]
    if not 0 <= n <= len(out):
        raise ValueError(f"{n} codes are not in there")
    return torch.tensor([x if x < 8 else x - 16 for x in out[:n]], dtype=torch.int8)
