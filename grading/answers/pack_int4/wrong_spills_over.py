"""Wrong: the sign bits of a negative low code fill the high half."""
# mistake: sign bits spill over

import torch


def pack_int4(codes):
    if codes.numel() and (int(codes.min()) < -8 or int(codes.max()) > 7):
        raise ValueError("not four bits")
    nibbles = codes.to(torch.uint8)
    if len(nibbles) % 2:
        nibbles = torch.cat([nibbles, nibbles.new_zeros(1)])
    return nibbles[0::2] | (nibbles[1::2] << 4)


def unpack_int4(packed, n):
    if n < 0 or n > 2 * len(packed):
        raise ValueError("too few bytes")
    both = torch.stack([packed & 15, packed >> 4], dim=1).reshape(-1)[:n].to(torch.int8)
    both[both > 7] -= 16
    return both
