"""What every tokenizer makes of the course's texts, written to `data/tokenizers.json`."""

import json
import re
from datetime import date
from pathlib import Path

from kvlab.real_tokenizers.compare import piece, source, split, vocab_size
from kvlab.real_tokenizers.readers import KNOWN, how_to_add, is_here

# The texts whose tokens are recorded. The first two pairs say the same in English and in Russian.
PAIRS = (
    ("mom washed the frame", "мама мыла раму"),
    ("Continue the text: mom washed the frame", "Продолжи текст: мама мыла раму"),
)
WORDS = ("Hello", " Hello", "mother", " mother", "мать", "bank", " bank", "Продолжи", " раму", " стёрла", "1984")
# An emoji of three joined by two invisible signs; an accent as one character and as two.
SIGNS = ("👩‍👩‍👧", "caf\u00e9", "cafe\u0301")
TEXTS = (*PAIRS[0], *PAIRS[1], *WORDS, *SIGNS)
# Ids that the guide names for words of its examples.
GUIDE_IDS = (15496, 77341, 3643, 70878, 50078, 86392, 42341, 261, 100342, 91234)


def record(path: Path) -> None:
    """Write what every tokenizer makes of TEXTS and GUIDE_IDS. All must be on this machine."""
    made = {}
    for name in KNOWN:
        if not is_here(name):
            raise ValueError(f"{KNOWN[name].title} is not on this machine: run `{how_to_add(KNOWN[name])}`")
        cut = {text: split(name, text) for text in TEXTS}
        made[name] = {
            "from": source(name),
            "vocab_size": vocab_size(name),
            "texts": {text: {"ids": s.ids, "bytes": [p.hex() for p in s.pieces]} for text, s in cut.items()},
            "tokens": {str(i): piece(name, i).hex() for i in GUIDE_IDS if i < vocab_size(name)},
        }
    about = "What real tokenizers make of a few texts, without begin tokens; bytes of each token in hexadecimal."
    content = {"about": about, "recorded": date.today().isoformat(), "tokenizers": made}
    text = json.dumps(content, ensure_ascii=False, indent=1)
    text = re.sub(r"\[[^][{}]*\]", lambda match: re.sub(r"\s+", " ", match[0]), text)  # a list on one line
    path.write_text(text + "\n", "utf-8")
