"""Published speeds of real servers, from `data/measured.json`, beside the bound of their hardware."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from kvlab.arithmetic import pass_seconds
from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.published import gpu, model
from kvlab.show import Table
from kvlab.validate import amount, whole


@dataclass(frozen=True)
class Measured:
    """One published figure: new tokens per second of `batch` requests together. None: lengths that were not fixed."""

    key: str
    model: str
    gpu: str
    software: str
    batch: int
    prompt_len: int | None
    n_new: int | None
    tokens_per_second: float
    source: str
    read: str
    note: str = ""

    def __post_init__(self) -> None:
        model(self.model)
        gpu(self.gpu)
        whole(f"{self.key}: batch", self.batch, least=1)
        amount(f"{self.key}: tokens_per_second", self.tokens_per_second, positive=True)
        if not self.source.strip() or not self.read.strip():
            raise ValueError(f"{self.key} needs a source and the day it was read")

    @property
    def bound(self) -> float:
        """Tokens per second of `batch` sequences that only decode, at most; at the shortest context where none is given.

        By the exact count of `pass_seconds`, a step after the other. Decoding alone is faster than serving, which
        prefills new requests between the steps.
        """
        first, steps = self.prompt_len or 1, max(2, self.n_new or 2) - 1
        passes = (pass_seconds(self.model, self.gpu, 1, first + step, self.batch) for step in range(steps))
        return self.batch * steps / sum(passes)

    @property
    def share(self) -> float:
        """The published figure as a share of the bound; above 1 it would be impossible.

        Where no lengths are given this is the least that it can be: with longer contexts the bound is lower.
        """
        return self.tokens_per_second / self.bound

    @property
    def has_lengths(self) -> bool:
        return self.prompt_len is not None and self.n_new is not None


@cache
def rows() -> tuple[Measured, ...]:
    """All published figures, in the order of the file. ValueError with the path where the file is damaged."""
    path = data_dir() / "measured.json"
    content: dict[str, Any] = read_json(path, dict)
    try:
        return tuple(Measured(**{"read": content["read"], **entry}) for entry in content["measured"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} is damaged ({error}): restore it from the repository") from error


def table() -> Table:
    """Published figures beside the bound."""
    cells = []
    for row in rows():
        lengths = f"{row.prompt_len:,} + {row.n_new:,}" if row.has_lengths else "not given"
        where = f"{model(row.model).name} on {gpu(row.gpu).name}"
        figures = (
            f"{row.tokens_per_second:,.0f}",
            f"{row.bound:,.0f}",
            f"{row.share:.0%}{'' if row.has_lengths else ' or more'}",
        )
        cells.append(
            (where, row.software, str(row.batch), lengths, *figures, row.note, f"{row.source}, read {row.read}")
        )
    header = (
        "model and GPU",
        "software",
        "requests",
        "tokens in + out",
        "tokens/s",
        "at most",
        "share",
        "note",
        "source",
    )
    return Table("Published speeds beside the bound", header, tuple(cells), width=28)
