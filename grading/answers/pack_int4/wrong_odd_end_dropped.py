"""Wrong: the last of an odd number of codes is lost."""
# mistake: odd end dropped

import torch


def pack_int4(codes):
    if codes.numel() and (int(codes.min()) < -8 or int(codes.max()) > 7):
        raise ValueError("not four bits")
    nibbles = (codes & 15).to(torch.uint8)
    nibbles = nibbles[: len(nibbles) // 2 * 2]
    return nibbles[0::2] | (nibbles[1::2] << 4)


def unpack_int4(packed, n):
    if n < 0 or n > 2 * len(packed):
        raise ValueError("too few bytes")
    both = torch.stack([packed & 15, packed >> 4], dim=1).reshape(-1)[:n].to(torch.int8)
    both[both > 7] -= 16
    return both
