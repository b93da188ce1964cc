"""What prompt caching costs: the dated table `data/prices.json`, and the bill of a request from its usage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kvlab.jsonfile import read_json
from kvlab.paths import data_dir
from kvlab.validate import amount, whole

# usage key -> price key
_PRICED = {
    "input_tokens": "input",
    "cache_creation_input_tokens": "cache_write",
    "cache_read_input_tokens": "cache_read",
    "output_tokens": "output",
}


@dataclass(frozen=True)
class ModelPrices:
    """One row of the table: dollars per million tokens; `minimum`: the smallest prefix that is cached, in tokens.

    breakpoints: an OpenAI model whose prefixes match at breakpoints only (GPT-5.6 and later).
    """

    id: str
    provider: str
    input: float
    cache_write: float
    cache_write_1h: float | None
    cache_read: float
    output: float
    minimum: int | None
    sources: tuple[str, ...]
    note: str = ""
    breakpoints: bool = False

    def per_million(self, ttl: str = "5m") -> dict[str, float]:
        """The four prices that `request_cost` takes. `ttl` is "5m" or "1h": what a write costs depends on it."""
        if ttl not in ("5m", "1h"):
            raise ValueError(f'ttl must be "5m" or "1h", got {ttl!r}')
        write = self.cache_write if ttl == "5m" else self.cache_write_1h
        if write is None:
            raise ValueError(f'{self.id} has no cache entries of an hour: use ttl="5m"')
        return {"input": self.input, "cache_write": write, "cache_read": self.cache_read, "output": self.output}


@cache
def _table() -> dict[str, Any]:
    return read_json(data_dir() / "prices.json", dict)


def read_on() -> str:
    """The day on which the table was read, as YYYY-MM-DD. Show it wherever a price is shown."""
    return str(_table()["read"])


def models(provider: str | None = None) -> list[ModelPrices]:
    """All rows, or those of "anthropic" or "openai"."""
    rows = [ModelPrices(**(row | {"sources": tuple(row["sources"])})) for row in _table()["models"]]
    return [row for row in rows if provider in (None, row.provider)]


def model(model_id: str) -> ModelPrices:
    """The row of one model. Raises ValueError with the known names for another one."""
    for row in models():
        if row.id == model_id:
            return row
    raise ValueError(f"there is no price for {model_id!r}: choose one of {', '.join(row.id for row in models())}")


def sources(row: ModelPrices) -> list[str]:
    """Where the figures of a row come from, as sentences to show."""
    return [str(_table()["sources"][key]) for key in row.sources]


def request_cost(usage: Mapping[str, Any], prices: Mapping[str, float]) -> float:
    """Dollars for one request.

    usage: counts of `input_tokens` (neither written nor read), `cache_creation_input_tokens`,
        `cache_read_input_tokens`, `output_tokens`; a missing or None count is 0, a negative one raises ValueError.
    prices: dollars per million tokens: `input`, `cache_write`, `cache_read`, `output`, all of them.
    """
    if not isinstance(usage, Mapping):
        raise ValueError(f"usage must be a dictionary of counts, got {usage!r:.60}")
    total = 0.0
    for count_key, price_key in _PRICED.items():
        if price_key not in prices:
            raise ValueError(f"the price of {price_key!r} is missing: prices need {', '.join(_PRICED.values())}")
        price = amount(f"the price of {price_key}", prices[price_key])
        count = usage.get(count_key)
        total += price * (0 if count is None else whole(count_key, count))
    return total / 1e6


def as_usage(usage: Any) -> dict[str, int]:
    """The usage of an answer of either SDK (its object or a dictionary) as the counts of `request_cost`.

    `ephemeral_1h_input_tokens` says how many of the written tokens were written for an hour.
    OpenAI's prompt_tokens include what was read and written; here they are taken apart.
    """
    if not isinstance(usage, Mapping) and not hasattr(usage, "model_dump"):
        raise ValueError(f"usage must be the usage of an answer or a dictionary of counts, got {usage!r:.60}")
    data = usage if isinstance(usage, Mapping) else usage.model_dump()
    if "prompt_tokens" in data:
        details = data.get("prompt_tokens_details") or {}
        read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
        return {
            "input_tokens": data["prompt_tokens"] - read - written,
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read,
            "output_tokens": data.get("completion_tokens") or 0,
            "ephemeral_1h_input_tokens": 0,
        }
    counts = {key: data.get(key) or 0 for key in _PRICED}
    hour = (data.get("cache_creation") or {}).get("ephemeral_1h_input_tokens") or 0
    return counts | {"ephemeral_1h_input_tokens": hour}


def cost(usage: Any, model_id: str, cached: bool = True) -> float:
    """Dollars for an answer of either SDK at the prices of a model, both kinds of writes included.

    cached=False: what the same request costs where nothing is cached.
    """
    counts, row = as_usage(usage), model(model_id)
    hour = counts["ephemeral_1h_input_tokens"]
    written, read = counts["cache_creation_input_tokens"], counts["cache_read_input_tokens"]
    if not cached:
        everything = counts["input_tokens"] + written + read
        return request_cost(
            {"input_tokens": everything, "output_tokens": counts["output_tokens"]}, row.per_million("5m")
        )
    short = request_cost(counts | {"cache_creation_input_tokens": written - hour}, row.per_million("5m"))
    return short + (request_cost({"cache_creation_input_tokens": hour}, row.per_million("1h")) if hour else 0.0)


def table(rows: Iterable[ModelPrices] | None = None) -> str:
    """The price table as text, with its date and the notes where sources disagree."""
    shown = list(models() if rows is None else rows)
    width = max((len(row.id) for row in shown), default=5)
    lines = [f"US dollars per million tokens, read on {read_on()}", ""]
    titles = ("input", "write", "write 1h", "read", "output", "minimum")
    lines.append(f"{'model':<{width}}" + "".join(f"{title:>10}" for title in titles))
    for row in shown:
        values = (row.input, row.cache_write, row.cache_write_1h, row.cache_read, row.output, row.minimum)
        lines.append(f"{row.id:<{width}}" + "".join(f"{'-' if value is None else value:>10}" for value in values))
    lines += ["", *(f"{row.id}: {row.note}" for row in shown if row.note)]
    return "\n".join(lines).rstrip() + "\n"
