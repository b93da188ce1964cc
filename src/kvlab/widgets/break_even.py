"""What n requests with one prefix cost with and without caching, by the price table and the rules of each provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvlab import plots
from kvlab.providers import openai_cached_tokens, prices, request_cost
from kvlab.show import Table
from kvlab.validate import whole
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.start import start_value
from kvlab.widgets.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUESTION = "From how many requests on does caching pay, if each comes before the entry expires?"
MOST_REQUESTS = 12
MOST = {"prefix": 20_000, "fresh": 5_000, "answer": 2_000}  # tokens, the ends of the sliders


def break_even_costs(
    model_id: str, ttl: str, prefix: int, fresh: int, answer: int, n_max: int = MOST_REQUESTS
) -> dict[str, Any]:
    """Dollars for 1 ... n_max requests that share `prefix` tokens and have `fresh` more and an `answer` of their own.

    The first request writes the prefix, the others read it. Returns cached and plain (dollars so far, a list each),
    stored (tokens that are cached: 0 below the minimum, whole steps with OpenAI), pays_from (requests, or None when not
    within n_max) and the settings. Raises ValueError for an unknown model, a ttl that it lacks, a negative number.
    """
    row = prices.model(model_id)
    per_million = row.per_million(ttl)
    prefix, fresh, answer = whole("prefix", prefix), whole("fresh", fresh), whole("answer", answer)
    n_max = whole("n_max", n_max, least=1)
    if row.provider == "openai" and not row.breakpoints:
        stored = openai_cached_tokens(prefix)
    else:
        stored = prefix if prefix >= (row.minimum or 0) else 0
    rest = {"input_tokens": prefix - stored + fresh, "output_tokens": answer}
    write = request_cost(rest | {"cache_creation_input_tokens": stored}, per_million)
    read = request_cost(rest | {"cache_read_input_tokens": stored}, per_million)
    alone = request_cost({"input_tokens": prefix + fresh, "output_tokens": answer}, per_million)
    cached = [write + n * read for n in range(n_max)]
    plain = [alone * n for n in range(1, n_max + 1)]
    pays = [n for n, (a, b) in enumerate(zip(cached, plain, strict=True), 1) if a < b - 1e-12]
    return {
        "model": model_id,
        "provider": row.provider,
        "ttl": ttl,
        "prefix": prefix,
        "minimum": row.minimum,
        "stored": stored,
        "cached": cached,
        "plain": plain,
        "pays_from": pays[0] if pays else None,
        "note": row.note,
    }


def break_even_figure(values: dict[str, Any]) -> Figure:
    """Two lines over the number of requests."""
    numbers = list(range(1, len(values["cached"]) + 1))
    series = {"without caching": (numbers, values["plain"]), "with caching": (numbers, values["cached"])}
    return plots.lines(series, "requests with one prefix", "cost so far (US dollars)", values["model"])


def break_even_table(values: dict[str, Any]) -> Table:
    n = len(values["plain"])
    unknown = "not known: assumed to be reached"
    rows = (
        ("prefix", counted(values["prefix"], "token")),
        ("minimum of the model", unknown if values["minimum"] is None else counted(values["minimum"], "token")),
        ("cached of it", counted(values["stored"], "token")),
        (
            "caching is cheaper from",
            counted(values["pays_from"], "request") if values["pays_from"] else f"never, up to {n}",
        ),
        (f"{counted(n, 'request')} without caching", f"{values['plain'][-1]:.5f} dollars"),
        (f"{counted(n, 'request')} with caching", f"{values['cached'][-1]:.5f} dollars"),
    )
    notes = (f"Prices read on {prices.read_on()}. {values['note']}".strip(),)
    # Only Anthropic sells entries of two ages.
    title = values["model"] + (f", entries of {values['ttl']}" if values["provider"] == "anthropic" else "")
    return Table(title, ("what", "value"), rows, notes=notes, width=48)


def break_even(
    model_id: str = "claude-sonnet-4-6", ttl: str = "5m", prefix: int = 2000, fresh: int = 20, answer: int = 100
) -> Explorer:
    """Choose a model of the price table, how long entries live, and the lengths.

    Raises ValueError for lengths to start with that lie beyond the sliders: 20,000, 5,000 and 2,000 tokens.
    """
    prefix, fresh, answer = (
        start_value(name, value, 0, MOST[name])
        for name, value in (("prefix", prefix), ("fresh", fresh), ("answer", answer))
    )

    def compute(model_id: str, ttl: str, prefix: int, fresh: int, answer: int) -> Result:
        values = break_even_costs(model_id, ttl, prefix, fresh, answer)
        alt = f"Cost of 1 to {MOST_REQUESTS} requests; caching is cheaper from {values['pays_from'] or 'none'} on."
        return Result(values, break_even_table(values), break_even_figure(values), alt)

    def build() -> Controls:
        import ipywidgets

        def slider(value: int, name: str, most: int, step: int) -> Any:
            return ipywidgets.IntSlider(
                value=value,
                min=0,
                max=most,
                step=step,
                description=name,
                readout_format=",d",
                continuous_update=False,
            )

        return {
            "model_id": ipywidgets.Dropdown(
                options=[row.id for row in prices.models()], value=model_id, description="Model"
            ),
            "ttl": ipywidgets.Dropdown(options=("5m", "1h"), value=ttl, description="TTL"),
            "prefix": slider(prefix, "Prefix", MOST["prefix"], 100),
            "fresh": slider(fresh, "New", MOST["fresh"], 10),
            "answer": slider(answer, "Answer", MOST["answer"], 10),
        }

    settings = {"model_id": model_id, "ttl": ttl, "prefix": prefix, "fresh": fresh, "answer": answer}
    return Explorer(QUESTION, settings, compute, build).show()
