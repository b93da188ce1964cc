"""Results and vectors of every method, recorded once in `data/embeddings/`, so that the course needs none of the models.

`python -m kvlab.embeddings.recorded` records them again from what is installed, with the date and all versions.
"""

import json
import platform
import re
import zipfile
import zlib
from collections.abc import Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kvlab import models
from kvlab.checksums import sha256
from kvlab.embeddings.methods import METHODS, Dense, entry, method, run
from kvlab.embeddings.retrieval import Result, RetrievalSet, equal_endings, judge, retrieval_set
from kvlab.embeddings.search import cosines
from kvlab.jsonfile import read_json
from kvlab.machine import cpu_name
from kvlab.paths import data_dir

WITHOUT_VECTORS = ("bm25", "mean_hidden")  # only their scores are kept
ENDED = "equal_endings"  # the file of the scores of queries that end as the passages do, see retrieval.equal_endings
PACKAGES = {"bm25": ("rank-bm25",), "minilm": ("torch", "tokenizers")}


def folder() -> Path:
    return data_dir() / "embeddings"


def about() -> dict[str, Any]:
    """When and on what machine the record was made, with which versions, and the milliseconds of each query."""
    return read_json(folder() / "recorded.json", dict)


def vectors(name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The recorded vectors of the passages (N, d) and of the queries (M, d), float32, in the order of the set.

    Raises ValueError for an unknown method and for one whose vectors are not kept.
    """
    entry(name)
    if name in WITHOUT_VECTORS:
        kept = ", ".join(other for other in METHODS if other not in WITHOUT_VECTORS)
        raise ValueError(f"of '{name}' only the scores are recorded; vectors are kept of {kept}")
    arrays = _arrays(name, ("passages", "queries"))
    return arrays[0], arrays[1]


def scores(name: str) -> torch.Tensor:
    """The recorded scores of a method, (queries, passages)."""
    entry(name)
    if name in WITHOUT_VECTORS:
        return _arrays(name, ("scores",))[0]
    passages, queries = vectors(name)
    return torch.stack([cosines(query, passages) for query in queries])


def recorded(name: str, data: RetrievalSet | None = None) -> Result:
    """The recorded result of a method, judged anew from its recorded scores. ValueError for another set than recorded."""
    table, notes = scores(name), about()
    if notes["retrieval.json"] != sha256(data_dir() / "retrieval.json") or data not in (None, retrieval_set()):
        raise ValueError(
            "the scores were recorded for another set: record again with `python -m kvlab.embeddings.recorded`"
        )
    times = notes["methods"][name]["query_ms"]
    return judge(name, table, retrieval_set(), times, f"recorded {notes['made']}")


def with_equal_endings(name: str) -> Result:
    """The recorded result of a method when queries end in a full stop, as all passages do. Nothing was timed."""
    entry(name)
    made = about()[ENDED]["made"]
    return judge(name, _arrays(ENDED, (name,))[0], equal_endings(retrieval_set()), source=f"recorded {made}")


def ended_queries() -> torch.Tensor:
    """SmolLM2's recorded last hidden states of the queries with equal endings, (M, d), float32."""
    return _arrays(ENDED, ("last_hidden_queries",))[0]


def results(live: Sequence[str] = ()) -> list[Result]:
    """All methods on the set: those named in `live` are run on this machine, the others come from the record.

    Raises ValueError for an unknown name, and for one whose model or package is not on this machine.
    """
    if isinstance(live, str):
        raise ValueError(f"live must be a list of names, got {live!r}")
    data, ready = retrieval_set(), {name: method(name) for name in live}
    return [run(name, ready[name], data)[0] if name in ready else recorded(name, data) for name in METHODS]


def _arrays(name: str, keys: tuple[str, ...]) -> list[torch.Tensor]:
    """The arrays of a method's file as float32 tensors. ValueError for a file that is missing or damaged."""
    path = folder() / f"{name}.npz"
    try:
        with np.load(path, allow_pickle=False) as file:
            return [torch.from_numpy(file[key].astype(np.float32)) for key in keys]
    except FileNotFoundError:
        raise ValueError(f"there is no {path.name} in {path.parent}: restore it from the repository") from None
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}): restore it from the repository") from error


def record(target: Path) -> None:
    """Run every method and write its vectors or scores, and `recorded.json`. All must be installed."""
    data = retrieval_set()
    made: dict[str, Any] = {}
    for name in METHODS:
        searcher = method(name)
        result, table = run(name, searcher, data)
        if name not in WITHOUT_VECTORS and isinstance(searcher, Dense):
            asked = torch.cat([searcher.encode([query.text]) for query in data.queries])
            np.savez_compressed(target / f"{name}.npz", passages=_half(searcher.vectors), queries=_half(asked))
        else:
            np.savez_compressed(target / f"{name}.npz", scores=table.numpy())
        made[name] = {"from": _versions(name), "query_ms": [round(ms, 3) for ms in result.query_ms]}
    content = {
        "about": "Vectors (float16) and scores (float32) of data/retrieval.json. Times: one query at a time, milliseconds.",
        "made": date.today().isoformat(),
        "machine": f"{cpu_name()}, {torch.get_num_threads()} thread(s), shared with other work",
        "python": platform.python_version(),
        "retrieval.json": sha256(data_dir() / "retrieval.json"),
        "methods": made,
    }
    _write(target, content)


def record_equal_endings(target: Path) -> None:
    """Run every method on the queries with equal endings, write the scores and add a note to `recorded.json`."""
    data = equal_endings(retrieval_set())
    arrays: dict[str, np.ndarray] = {}
    made: dict[str, list[str]] = {}
    for name in METHODS:
        searcher = method(name)
        arrays[name] = run(name, searcher, data)[1].numpy()
        made[name] = _versions(name)
        if name == "last_hidden" and isinstance(searcher, Dense):
            arrays[f"{name}_queries"] = _half(torch.cat([searcher.encode([query.text]) for query in data.queries]))
    np.savez_compressed(target / f"{ENDED}.npz", allow_pickle=False, **arrays)
    note = "Scores (float32) of queries that end in a full stop as the passages do, and their last hidden states (float16)."
    content = read_json(target / "recorded.json", dict)
    _write(target, content | {ENDED: {"about": note, "made": date.today().isoformat(), "from": made}})


def _versions(name: str) -> list[str]:
    """What a method was made with: its model's package and the libraries, each as name==version."""
    needs = entry(name).needs
    source = [models.ADDABLE[needs].requirement] if needs in models.ADDABLE else []
    packages = PACKAGES.get(name, ("torch", "tokenizers"))
    return source + [f"{package}=={version(package).partition('+')[0]}" for package in packages]


def _write(target: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1)
    text = re.sub(r"\[[\s\d.,]+\]", lambda match: re.sub(r"\s+", " ", match[0]), text)  # a list of times on one line
    (target / "recorded.json").write_text(text + "\n", "utf-8")


def _half(vectors: torch.Tensor) -> np.ndarray:
    """float16, refusing what it cannot hold."""
    half = vectors.numpy().astype(np.float16)
    if not np.isfinite(half).all():
        raise ValueError("a vector holds values that float16 cannot")
    return half


if __name__ == "__main__":
    record(folder())
    record_equal_endings(folder())
