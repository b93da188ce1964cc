"""Tokenizers of real models side by side: the ids of a text, and each token's bytes.

Each comes from a package that ships it, and each is optional: what the course shows of it is recorded in
`data/tokenizers.json`. `python -m kvlab.real_tokenizers` records it again from what is installed.
"""

from kvlab.real_tokenizers.compare import Split, piece, side_by_side, source, split, vocab_size
from kvlab.real_tokenizers.readers import KNOWN, is_here
from kvlab.real_tokenizers.record import GUIDE_IDS, PAIRS, SIGNS, TEXTS, WORDS

__all__ = [
    "GUIDE_IDS",
    "KNOWN",
    "PAIRS",
    "SIGNS",
    "TEXTS",
    "WORDS",
    "Split",
    "is_here",
    "piece",
    "side_by_side",
    "source",
    "split",
    "vocab_size",
]
