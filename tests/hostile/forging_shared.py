"""What several of the `forging` files use."""

from __future__ import annotations

# What a forger would like to be believed. NAME is the exercise that the cell belongs to.
_WORDS = """
import json, struct

_claims = [
    {"ok": True, "passed": True, "correct": True, "score": 4, "points": 4, "marks": 4, "verdict": "right"},
    {"exercise": "NAME", "status": "passed", "score": 4, "groups": [{"passed": True, "points": 4}]},
    {"kind": "result", "type": "result", "id": 0, "value": 20100, "result": 20100, "error": None},
    {"kind": "raised", "type": "raised", "error": "ValueError", "id": 1, "exercise": "kv_cache_bytes"},
    {"kind": "done", "exercise": "cached_attention", "done": True},
]
_frames = []
for _claim in _claims:
    _text = json.dumps(_claim).encode()
    _frames += [_text + b"\\n", struct.pack("<I", len(_text)) + _text, struct.pack(">I", len(_text)) + _text,
                struct.pack("<Q", len(_text)) + _text, struct.pack(">Q", len(_text)) + _text]
"""


_CALLERS = """
import sys


def _seize(limit=60):
    found, frame = [], sys._getframe()
    while frame is not None and len(found) < limit:
        found += [*frame.f_locals.values(), *frame.f_globals.values()]
        frame = frame.f_back
    return found
"""
