"""Two requests to the local server: where their prompts part, and what is read, written, computed and paid."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from kvlab import plots
from kvlab.providers import as_usage, cost, first_difference, openai_cached_tokens, prices, prompt_text
from kvlab.providers.prompt import ANSWER, anthropic_blocks, openai_blocks
from kvlab.show import Table
from kvlab.validate import amount, shown, whole
from kvlab.widgets.base import Controls, Explorer, Result
from kvlab.widgets.start import start_value
from kvlab.widgets.words import counted

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kvlab.providers import LocalServer

QUESTION = "Where do the two prompts part, and what does the second request find?"
LINE = "You answer questions about the stories of this village."
FRONT, BACK = "in front of the handbook", "behind the handbook"
MODELS = ("claude-opus-5", "claude-sonnet-4-6", "claude-haiku-4-5", "gpt-4o", "gpt-5.4")
ASKED = ("Who found the kite?", "What did mom wash?")
PAGE = "Mom washed the frame. Dad fixed the chair. The birds sang in the trees. It was a warm morning. "
LEAST_TOKENS, MOST_TOKENS, MOST_WAIT, MOST_CHARACTERS = 100, 3000, 4000, 2000
_keys = itertools.count()  # each view begins with an empty cache: an API key of its own


def prompt_cache_view(
    server: LocalServer,
    line: str = LINE,
    place: str = FRONT,
    length: int = 1100,
    wait: float = 0,
    model_id: str = "claude-sonnet-4-6",
    ttl: str = "5m",
) -> dict[str, Any]:
    """Send two requests through the provider's SDK, the second one `wait` seconds later, with `line` in place of LINE.

    line: stands in front of a handbook of about `length` tokens, or behind it (`place`). ttl: Anthropic's "5m" or "1h";
    "5m" for OpenAI's models, whose entries live for 10 minutes here.
    Returns requests (for each: prompt, read, written, fresh, from_cache, computed in tokens; paid, plain in dollars),
    difference (first differing byte and the text around it, or None), common (equal tokens at the beginning), edge (whole
    blocks of them, in tokens), stored (whether the first request has left an entry) and the settings. Raises ValueError
    for an unknown place, model or ttl, a line that is no text, and bad numbers.
    """
    if place not in (FRONT, BACK):
        raise ValueError(f"the line stands {FRONT} or {BACK}, not {place!r}")
    if model_id not in MODELS:
        raise ValueError(f"choose one of {', '.join(MODELS)}, not {model_id!r}")
    _check_server(server)
    length, wait = whole("length", length, least=1), amount("wait", wait)
    if length > MOST_TOKENS:
        raise ValueError(f"length must be at most {MOST_TOKENS} tokens, got {shown(length)}")
    _check_line(line)
    row = prices.model(model_id)
    row.per_million(ttl)  # refuses a ttl that is unknown, or that the model lacks
    book = _handbook(server, length)
    bodies = [
        _body(row.provider, model_id, ttl, one, place, book, asked)
        for one, asked in zip((LINE, line), ASKED, strict=True)
    ]
    key = f"widget {next(_keys)}"
    requests: list[dict[str, Any]] = []
    for number, body in enumerate(bodies):
        server.advance(wait if number else 0)
        answer = _send(server, row.provider, key, body)
        usage, inside = as_usage(answer.usage), server.stats(answer.id)
        requests.append(
            {
                "prompt": inside.prompt,
                "read": usage["cache_read_input_tokens"],
                "written": usage["cache_creation_input_tokens"],
                "fresh": usage["input_tokens"],
                "from_cache": inside.from_cache,
                "computed": inside.computed,
                "paid": cost(answer.usage, model_id),
                "plain": cost(answer.usage, model_id, cached=False),
            }
        )
    first, second = (_tokens(server, row.provider, body) for body in bodies)
    common = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    return {
        "requests": requests,
        "difference": first_difference(prompt_text(bodies[0]), prompt_text(bodies[1])),
        "common": common,
        "edge": common // server.engine.blocks.block_size * server.engine.blocks.block_size,
        "stored": bool(requests[0]["written"])
        if row.provider == "anthropic"
        else openai_cached_tokens(requests[0]["prompt"]) > 0,
        "wait": wait,
        "ttl": {"5m": 300, "1h": 3600}[ttl] if row.provider == "anthropic" else 600,
        "minimum": row.minimum,
        "model": model_id,
        "place": place,
    }


def prompt_cache_figure(view: dict[str, Any]) -> Figure:
    """A bar for each request, cut into read, written and the rest; lines where the prompts part."""
    title = f"{view['model']}: {view['wait']:,} s between the two"
    figure, axes = plots._new_figure("tokens of the prompt", "request", title)
    looks: dict[str, dict[str, Any]] = {
        "read": {"color": plots.PALETTE[0]},
        "written": {"color": plots.PALETTE[4], "hatch": "///"},
        "fresh": {"color": plots.MUTED, "hatch": ".."},
    }
    look_names = {"read": "read", "written": "written", "fresh": "the rest"}
    for kind, look in looks.items():
        order = list(looks)[: list(looks).index(kind)]
        starts = [sum(request[before] for before in order) for request in view["requests"]]
        widths = [request[kind] for request in view["requests"]]
        axes.barh([0, 1], widths, left=starts, height=0.55, edgecolor="white", label=look_names[kind], **look)
    axes.axvline(view["common"], color="black", linestyle="--", label="first token that differs")
    axes.axvline(view["edge"], color=plots.PALETTE[1], linestyle=":", label="last whole block before it")
    axes.set_yticks([0, 1], ["first", "second"])
    axes.set_ylim(2.6, -0.6)  # the first on top, and room for the legend below
    axes.legend(loc="lower left", ncols=3, fontsize=8)
    return figure


def prompt_cache_table(view: dict[str, Any]) -> Table:
    parted = view["difference"]
    where = "the prompts are equal"
    if parted is not None:
        before, one, other = (text.replace("\n", "\\n") for text in (parted.before, parted.a, parted.b))
        where = f"after '{before}' the first has '{one}', the second '{other}'"
    alive = "alive" if view["wait"] < view["ttl"] else "expired"
    entry = f"The entry lives for {view['ttl']:,} s; after {view['wait']:,} s it is {alive}."
    if not view["stored"]:
        entry = "The first request has left no entry: what could be cached is below the minimum."
    rows = [
        (kind, *(f"{request[key]:,}" for request in view["requests"]))
        for kind, key in (
            ("tokens of the prompt", "prompt"),
            ("read", "read"),
            ("written", "written"),
            ("input (the rest)", "fresh"),
            ("from blocks of the engine", "from_cache"),
            ("positions computed", "computed"),
        )
    ]
    rows += [
        (name, *(f"{100 * request[key]:.4f}" for request in view["requests"]))
        for name, key in (("US cents paid, 1 token of answer too", "paid"), ("US cents without caching", "plain"))
    ]
    notes = (
        f"First differing byte: {'none' if parted is None else parted.byte}; {where}",
        f"{counted(view['common'], 'token')} in common, {view['edge']:,} of them in whole blocks; minimum {view['minimum']:,}",
        f"{entry} Prices read on {prices.read_on()}.",
    )
    return Table("Two requests", ("what", "first", "second"), tuple(rows), notes=notes, width=48)


def prompt_cache(server: LocalServer, length: int = 1100) -> Explorer:
    """Edit the second request's first line, move it, change the length, the pause, the model and the time to live.

    length: of the handbook to start with, in tokens, 100 to 3,000. Raises ValueError for another one.
    """
    _check_server(server)
    length = start_value("length", length, LEAST_TOKENS, MOST_TOKENS)
    settings: dict[str, Any] = {
        "line": LINE,
        "place": FRONT,
        "length": length,
        "wait": 60,
        "model_id": "claude-sonnet-4-6",
        "ttl": "5m",
    }

    def compute(**chosen: Any) -> Result:
        view = prompt_cache_view(server, **chosen)
        second = view["requests"][1]
        alt = f"Second request: {counted(second['read'], 'token')} read, {second['written']} written, {second['fresh']} others."
        return Result(view, prompt_cache_table(view), prompt_cache_figure(view), alt)

    def build() -> Controls:
        import ipywidgets

        def slider(name: str, value: int, least: int, most: int, step: int) -> Any:
            return ipywidgets.IntSlider(
                value=value,
                min=least,
                max=most,
                step=step,
                description=name,
                readout_format=",d",
                continuous_update=False,
            )

        wide = ipywidgets.Layout(width="90%")
        return {
            "line": ipywidgets.Text(value=LINE, description="Line", continuous_update=False, layout=wide),
            "place": ipywidgets.Dropdown(options=(FRONT, BACK), value=FRONT, description="stands"),
            "length": slider("Handbook", length, LEAST_TOKENS, MOST_TOKENS, 100),
            "wait": slider("Pause (s)", 60, 0, MOST_WAIT, 20),
            "model_id": ipywidgets.Dropdown(options=MODELS, value=settings["model_id"], description="Model"),
            "ttl": ipywidgets.Dropdown(options=("5m", "1h"), value="5m", description="TTL"),
        }

    return Explorer(QUESTION, settings, compute, build).show()


def _check_server(server: Any) -> None:
    from kvlab.providers import LocalServer

    if not isinstance(server, LocalServer):
        raise ValueError(f"give a running LocalServer, got {server!r:.60}")


def _check_line(line: Any) -> None:
    if not isinstance(line, str):
        raise ValueError(f"the line must be a text, got {line!r:.60}")
    if len(line) > MOST_CHARACTERS:
        raise ValueError(f"the line has {len(line):,} characters: {MOST_CHARACTERS:,} are the most")
    if any("\ud800" <= character <= "\udfff" for character in line):
        raise ValueError("the line holds half a character (a lone surrogate): write whole ones")


def _body(provider: str, model_id: str, ttl: str, line: str, place: str, book: str, asked: str) -> dict[str, Any]:
    """The arguments of the SDK's call."""
    static, user = (f"{line}\n{book}", asked) if place == FRONT else (book, f"{line}\n{asked}")
    body: dict[str, Any] = {"model": model_id, "max_tokens": 1, "messages": [{"role": "user", "content": user}]}
    if provider == "anthropic":
        mark = {"type": "ephemeral", "ttl": ttl}
        return body | {"system": [{"type": "text", "text": static, "cache_control": mark}]}
    return body | {"messages": [{"role": "system", "content": static}, *body["messages"]]}


def _send(server: LocalServer, provider: str, key: str, body: dict[str, Any]) -> Any:
    if provider == "anthropic":
        return server.anthropic(key).messages.create(**body)
    return server.openai(key).chat.completions.create(**body)


def _tokens(server: LocalServer, provider: str, body: dict[str, Any]) -> list[int]:
    """The prompt as the server's model reads it: each block is turned into tokens alone."""
    tokenizer = server.model.tokenizer
    assert tokenizer is not None  # the server has refused a model without one
    blocks = anthropic_blocks(body) if provider == "anthropic" else openai_blocks(body)
    begin = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    texts = [*(block.text for block in blocks), ANSWER]
    return [*begin, *(token for text in texts for token in tokenizer.encode(text, bos=False)), *begin]


def _handbook(server: LocalServer, length: int) -> str:
    """A text of about `length` tokens: one page, again and again, with its number so that no two are equal."""
    tokenizer = server.model.tokenizer
    assert tokenizer is not None
    text = "".join(f"Page {number}. {PAGE}" for number in range(1, 2 + length // len(tokenizer.encode(PAGE))))
    return tokenizer.decode(tokenizer.encode(text, bos=False)[:length])
