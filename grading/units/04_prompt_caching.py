# %% [markdown]
# # 04 · Prompt caching: pay once for a common beginning
#
# {{colab badge}}
#
# *About 150 minutes · 3 cards · 5 exercises, 12 points, and one written question, 3 points*
#
# Notebook 03 shared blocks between requests inside one engine. Anthropic and OpenAI sell the same thing: they keep the keys and values of your prompt for a while, and a later request with the same beginning pays less and starts sooner.
# They call it **prompt caching**. It has rules, and who does not know them pays more than without it.
#
# Nothing here costs money. A small server inside this notebook runs the engine of this course and speaks both providers' formats, and the official packages `anthropic` and `openai` talk to it as they would to the real service.
# The text of its answers is not the point: one small model stands behind all names. Whether a prefix is found, how many positions are computed and how long that takes is real.
#
# When you have worked through it you can
#
# - say which part of a prompt is found again, to the token, and what breaks it;
# - read the `usage` of both providers and turn it into dollars;
# - say when caching pays, and when it costs more than none;
# - order a prompt so that it can be cached, and test that it was.
#
# You need: notebook 03 (blocks), plain Python, and the packages `anthropic`, `openai`, `fastapi` and `uvicorn`. Where they are missing, a sentence below says how to get them. No GPU, no network, no API key.

# %%
# {{colab bootstrap: api}}

# %% tags=["parameters"]
DEVICE = "auto"
MODEL = "primer"
FAST = False
SEED = 0
LIVE = False

# %%
import math
from contextlib import ExitStack
from importlib.metadata import version

import numpy as np
import torch

import kvlab
from kvlab import check, claims, faults, glossary, plots, profiling, providers, quiz, validate, widgets
from kvlab.primer import corpus, dataset
from kvlab.providers import LocalServer, StillClock, as_usage, clients, cost, first_difference, prompt_text
from kvlab.providers import prices as price_table

torch.set_num_threads(1)  # on a CPU; a model this small gains nothing from more, and its clocks wobble less
validate.seed(SEED)
model = kvlab.load(MODEL, DEVICE)
tokenizer = model.tokenizer
running = ExitStack()  # the server ends with the kernel, or by running.close()
server = running.enter_context(LocalServer(model, clock=StillClock(), name=MODEL))
clients(False, server)  # says in a sentence what to do where a package is missing

print(profiling.describe_device(model.device))
print(f"{MODEL} at {server.url.removeprefix('http://')}; anthropic {version('anthropic')}, openai {version('openai')}")

# %% [markdown]
# `LIVE` is for the one cell further down that says so: with `LIVE = True` and a key of your own in the environment (`ANTHROPIC_API_KEY`, `OPENAI_API_KEY`) it asks the real, paid service. All other cells always use the local server,
# because they look into it and turn its clock: it stands still until a cell moves it, so that nobody has to wait five minutes.

# %%
SONNET, OPUS, GPT = "claude-sonnet-4-6", "claude-opus-5", "gpt-4o"  # names in the dated price table
questions = ("Who found the kite?", "What did mom wash?", "Where did the goat sleep?", "Why was Nick sad?")


def handbook(n_tokens, seed):
    """A text of about n_tokens: stories of the kind the model was trained on, other ones for each seed."""
    ids = []
    for story in corpus.documents(dataset.HELD_OUT_SEED + 1000 * SEED + seed):
        ids += tokenizer.encode(story + "\n", bos=False)
        if len(ids) >= n_tokens:
            return tokenizer.decode(ids[:n_tokens])


def marked(text, ttl="5m"):
    """A block of text with a mark: what stands up to its end may be cached."""
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": ttl}}


def ask(client, system, question, model=OPUS, **more):
    """One request in Anthropic's format, with a short answer."""
    messages = [{"role": "user", "content": question}]
    return client.messages.create(model=model, system=system, messages=messages, **{"max_tokens": 4} | more)


def show(name, answer):
    """Print what the answer's usage says beside what the engine did. Returns tokens written and read."""
    usage, inside = as_usage(answer.usage), server.stats(answer.id)
    written, read = usage["cache_creation_input_tokens"], usage["cache_read_input_tokens"]
    print(f"{name:44}{usage['input_tokens']:>7}{written:>9}{read:>7}{inside.computed:>11}")
    return written, read


heads = f"{'':44}{'input':>7}{'written':>9}{'read':>7}{'computed':>11}   (tokens; positions)"

# %% [markdown]
# ## Card 11 · A prefix that several requests share
#
# Many requests of one application begin alike. First comes the **system prompt**, the instructions that are always the same. Then often come documents that were looked up for the question, which is called retrieval or **RAG**. The question comes last.
# The model must turn all of it into keys and values before it can say a word: that is prefill, and it is most of the TTFT, the time to the first token.
#
# The keys and values of a token depend on all tokens before it and on none after it. So two prompts can share what they have in common at the **beginning**, and nothing behind the first difference, however equal it may look. That common beginning is the **prefix**.
# A request that finds its prefix stored is a **cache hit**; one that does not is a miss.
#
# Here are two requests with a system prompt of about 2,000 tokens. The line with `cache_control` asks the service to keep everything up to the end of this block of text.

# %%
quiz.predict(
    "Both requests have the same 2,000 tokens in front and a question of their own of 20 or so. Blocks of the cache hold 16 tokens. About how many positions does the engine compute for the second request?",
    options=["about 30", "about 1,000", "about 2,020"],
    answer="about 30",
    reveal="The stored blocks cover the prefix up to its last whole block. What is left are the few tokens of the block that was not full, and the question.",
)

# %%
text = handbook(2000, 1)
seconds, said = {"miss": [], "hit": []}, {}
print(heads)
for number in range(2 if FAST else 4):
    client = server.anthropic(f"customer {number}")  # each API key has a cache of its own, so each begins with a miss
    for kind, question in zip(seconds, questions[:2] if number % 2 else questions[1::-1], strict=True):
        answer = client.messages.create(
            model="claude-sonnet-4-6",
            max_tokens=12,
            system=[{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}],
            messages=[{"role": "user", "content": question}],
        )
        written, read = show(f"customer {number}: {question}", answer)
        inside = server.stats(answer.id)
        seconds[kind].append(inside.ttft)
        said.setdefault(question, set()).add(answer.content[0].text)
        assert answer.usage.input_tokens + written + read == inside.prompt == inside.computed + inside.from_cache
        if kind == "miss":
            first, stored = inside, written
            assert written > 1900 and read == 0 and inside.from_cache == 0
        else:
            assert (written, read) == (0, stored) and inside.from_cache == read // 16 * 16, "whole blocks of 16"
            assert inside.computed < 0.1 * first.computed, "more than 90 % fewer positions"
assert all(len(texts) == 1 for texts in said.values()), "a hit changes no token of the answer"
for kind, times in seconds.items():
    print(f"TTFT, {kind:4} {profiling.Timing.of(times)}")
times = {kind: profiling.Timing.of(each).median for kind, each in seconds.items()}
print(f"{times['miss'] / times['hit']:.0f} times faster with a hit, on this machine and with nobody else in the queue")

# %% [markdown]
# Read the columns apart. *Input*, *written* and *read* are what the service reports and bills; each token of the prompt is in exactly one of them. *Computed* is what the engine did.
# On the second request it computed a few more positions than the question has: it reuses whole blocks.
#
# The answers of misses and hits are equal, token by token. A cache that is right changes nothing but the time and the price.
#
# How much faster? A lot for a short question on a long prefix, but less than the 66 times by which the positions fall: a request has fixed costs (tokenizing, one pass of the model) that a hit does not remove. Over the network and in a queue it is less still.
# Anthropic's own table of 2024 has 11.5 s and 2.4 s for a prompt of 100,000 tokens, a factor of 4.8, and 31 % less for one of 10,000. So do not promise a factor: measure yours.
#
# ### Static first
#
# The rule that follows: what never changes goes to the front, what changes with every request to the end. Here the same document and the same questions, in both orders.

# %%
document, computed = handbook(600, 2), {}
print(heads)
for order in ("static first", "query first"):
    client, computed[order], bill = server.anthropic(order), [], []
    for question in questions[: 3 if FAST else 4]:
        parts = [marked(document), {"type": "text", "text": question}]
        content = parts if order == "static first" else parts[::-1]
        answer = client.messages.create(model=OPUS, max_tokens=1, messages=[{"role": "user", "content": content}])
        written, read = show(f"{order}: {question}", answer)
        computed[order].append(server.stats(answer.id).computed)
        bill.append((cost(answer.usage, OPUS), cost(answer.usage, OPUS, cached=False)))
    with_cache, without = map(sum, zip(*bill, strict=True))
    print(f"{order}: {with_cache / without:.2f} times the price of sending the same without a mark\n")
    assert (with_cache < without) == (order == "static first")
    assert (read == 0) == (order == "query first")
assert max(computed["static first"][1:]) < 0.1 * min(computed["query first"])

figure = plots.lines(
    {order: (list(range(1, len(found) + 1)), found) for order, found in computed.items()},
    xlabel="request",
    ylabel="prompt positions computed",
    title="The same text in two orders",
)
figure.axes[0].xaxis.get_major_locator().set_params(integer=True)
figure

# %% [markdown]
# *The figure: positions computed for each request. With the question first every request computes all of the document again, more than 600 positions. With the document first only the first request does; the later ones compute about 30: the question, and the tokens of the last block that was not full.*
#
# With the question first each request even costs more than without a mark: it writes an entry, at 1.25 times the price of input, and nobody ever reads it.
#
# ### What breaks a prefix
#
# The prompt that the model sees is one long text: tools first, then the system prompt, then the messages. One byte that differs ends the common beginning. Three ways this happens unnoticed: a time of day in the system prompt, tools that come in another order, and the keys of a JSON object in another order.
# `first_difference` compares two prompts as the server renders them and shows where they part.

# %%
look = {
    "name": "look_up",
    "description": "Look up a word.",
    "input_schema": {"type": "object", "properties": {"word": {"type": "string"}}},
}
mail = {"name": "send_mail", "description": "Send a mail.", "input_schema": {"type": "object", "properties": {}}}
turned = look | {"input_schema": dict(reversed(look["input_schema"].items()))}  # equal in Python, not as text
assert turned == look
instructions = handbook(600, 3)


def body(time="10:15:00", tools=(look, mail), end="", question=questions[0]):
    """The arguments of one request."""
    return {
        "model": OPUS,
        "max_tokens": 1,
        "tools": list(tools),
        "system": [marked(f"It is {time}. {instructions}{end}")],
        "messages": [{"role": "user", "content": question}],
    }


base = body()
changed = {
    "nothing": body(),
    "another question": body(question=questions[1]),
    "a blank at the end of the instructions": body(end=" "),
    "the time, one second later": body(time="10:15:01"),
    "two tools change places": body(tools=(mail, look)),
    "two JSON keys change places": body(tools=(turned, mail)),
}
stored = as_usage(server.anthropic("tools").messages.create(**base).usage)["cache_creation_input_tokens"]
print(f"the first request wrote {stored} tokens\n")
for name, arguments in changed.items():
    answer = server.anthropic("tools").messages.create(**arguments)
    read = answer.usage.cache_read_input_tokens
    parted = first_difference(prompt_text(base), prompt_text(arguments), context=14)
    where = (
        "no difference"
        if parted is None
        else f"byte {parted.byte:>4}: {parted.before!r} then {parted.a!r} | {parted.b!r}"
    )
    print(f"{name:40} read {read:>5}   {where}")
    assert read == (stored if name in ("nothing", "another question") else 0)

# %% [markdown]
# The two objects with turned keys are equal for Python, and still they break the prefix: the cache knows the text, not what it means. So serialise with sorted keys, sort the tools, and keep times, ids and names of users out of the front part.
# The blank at the end breaks it as well. It stands behind more than 600 equal tokens, but an entry is found as a whole up to its mark, or not at all.

# %% [markdown]
# ### Exercise: `cached_prefix_length`
#
# *15 minutes · difficulty 2 of 5 · 3 points*
#
# How much of a new prompt is in the cache already. No provider's rules yet: only tokens, blocks and one token that is never skipped.
#
# Everything your answer needs (small functions of your own, further imports) goes into this one cell: only this cell is collected. `math`, `np` and `torch` are there.
# The docstring names what does the whole job: while your answer is checked, calling it is an error.


# %% exercise="cached_prefix_length" minutes=15 difficulty=2 closed=["kvlab.providers.rules.cached_prefix_length", "kvlab.engine.BlockManager"]
# exercise: cached_prefix_length
def cached_prefix_length(stored: list[int], prompt: list[int], block: int) -> int:
    """How many tokens at the start of a prompt need no computing, because their K and V are stored.

    stored: the token ids of one earlier sequence; the cache holds K and V of all of them.
    prompt: the token ids of the new request. Either may be the longer one, and stored may be empty.
    block: how many tokens a block of the cache holds. Only whole blocks are reused.
    Returns the length of the longest common beginning, rounded down to whole blocks. At least one token of the prompt
    stays to be computed, so a block that would leave none is not reused. An empty prompt gives 0.
    A block below 1 raises ValueError. Both lists stay as they are.
    You may not call here: kvlab.providers.rules.cached_prefix_length, kvlab.engine.BlockManager.
    """
    ### BEGIN SOLUTION
    if block < 1:
        raise ValueError(f"a block holds at least one token, got {block}")
    common = 0
    for old, new in zip(stored, prompt, strict=False):
        if old != new:
            break
        common += 1
    reusable = min(common, len(prompt) - 1)
    return max(reusable // block * block, 0)
    ### END SOLUTION


# %% [markdown] hints="cached_prefix_length"
# 1. Write two short lists below each other and go through them from the left. Where do you stop, and what else can end the walk?
# 2. Three numbers limit the result: the length of what agrees, the length of the prompt minus the token that has to be computed, and the next smaller multiple of the block. In which order do you apply them?
# 3. Cut to the length of the prompt minus 1 first, round down after it. Then look at an empty prompt: which number would the formula give there?

# %% check="cached_prefix_length" points=3
with check.exercise("cached_prefix_length") as t:
    stored = [7, 3, 9, 3, 5, 1, 4, 8]
    prompt = [7, 3, 9, 3, 6, 2, 2, 2, 2, 2]
    before = list(stored), list(prompt)
    cached_prefix_length(stored, prompt, 2)
    t.unchanged(before, (stored, prompt), "both lists stay as they are")
    t.equal(
        cached_prefix_length(stored, prompt, 1),
        4,
        "4 tokens agree, then both lists go on in different ways: with blocks of one token all 4 are reused",
    )
    t.equal(
        cached_prefix_length([7, 3, 9, 3, 5, 1, 4, 8], [7, 3, 9, 3, 6, 1, 4, 8, 2], 1),
        4,
        "what agrees again after the first difference does not count: K and V of a token depend on all tokens before it",
    )
    t.equal(
        cached_prefix_length(stored, prompt, 2),
        4,
        "4 tokens fill two blocks of 2: both count, and the result is a number of tokens",
    )
    t.equal(cached_prefix_length(stored, prompt, 3), 3, "4 tokens fill one block of 3: rounded down to whole blocks")
    t.equal(cached_prefix_length(stored, prompt, 5), 0, "4 tokens fill no block of 5: rounded down, that is 0")
    t.equal(
        cached_prefix_length(stored, [2, 3, 9, 3, 5], 1), 0, "the first tokens differ: there is no common beginning"
    )
    t.equal(
        cached_prefix_length([7, 3, 9, 3], [7, 3, 9, 3, 6, 6], 2),
        4,
        "the prompt goes on where the stored text ends: all that is stored is reused, its last token too",
    )
    t.equal(
        cached_prefix_length(stored, list(stored), 4),
        4,
        "all 8 tokens of the prompt are stored, but one has to be computed to give the next one: the last block is not reused",
    )
    t.equal(
        cached_prefix_length(stored, list(stored), 3),
        6,
        "8 tokens agree and two blocks of 3 leave two of them to compute: nothing more has to go",
    )
    t.equal(
        cached_prefix_length(stored, stored[:6], 2),
        4,
        "the prompt ends inside what is stored: one token of the prompt has to be computed",
    )
    t.equal(cached_prefix_length([7, 3], [7], 1), 0, "a prompt of one token: that token has to be computed")
    t.equal(cached_prefix_length([], [7, 3, 9], 2), 0, "nothing is stored, nothing is reused")
    t.equal(cached_prefix_length([7, 3], [], 1), 0, "an empty prompt has nothing to reuse: 0, no negative number")
    t.equal(cached_prefix_length(stored, [], 4), 0, "an empty prompt has nothing to reuse: 0, no negative number")
    t.raises(ValueError, lambda: cached_prefix_length(stored, prompt, 0), "a block of 0 tokens holds nothing")
    t.raises(ValueError, lambda: cached_prefix_length(stored, prompt, -2), "a block of -2 tokens makes no sense")
    t.raises(ValueError, lambda: cached_prefix_length([], prompt, -1), "a negative block, also where nothing is stored")

# %%
claims.show(card=11)

# %% [markdown]
# ## Card 12 · Anthropic: marked prefixes, written and read
#
# With Anthropic you say what to keep. A **content block** is one entry of a message's `content`, of `system` or of `tools` (not a block of the engine's cache). One with `cache_control` is a **breakpoint**: the prefix up to its end becomes an entry of the cache. The rules, as they stood on the day of the price table below:
#
# - up to four breakpoints; or one `cache_control` at the top level of the request, which puts the breakpoint behind the last message by itself;
# - an entry lives for five minutes, or for an hour if you ask for it. That is its **time to live**, TTL. A read starts it anew, at no charge. The clock runs from the start of the request;
# - a breakpoint looks back over at most 20 content blocks for an earlier entry, and finds entries only where an earlier request had a breakpoint;
# - a prefix shorter than the model's minimum is not cached, and nothing tells you so except zeros in the usage;
# - writing costs 1.25 times the input price (2 times for an hour), reading 0.1 times on most models.
#
# The answer's `usage` has three counts for the prompt: `cache_creation_input_tokens` (written), `cache_read_input_tokens` (read) and `input_tokens`, which is only the rest. The whole prompt is the sum of all three.

# %%
quiz.predict(
    "An entry was written at 12:00:00. It is read at 12:04:59 and at 12:09:58, and then a request comes at 12:15:30. What does this last one find?",
    options=[
        "The entry, since it was used",
        "Nothing: 5 minutes have passed since the last use",
        "Nothing since 12:05:00",
    ],
    answer="Nothing: 5 minutes have passed since the last use",
    reveal="Each read starts the five minutes anew, so the two reads found it. The last request comes 332 seconds after the last read, and then it is gone. (The cell below tries just 300 seconds; the local server takes that as too late.)",
)

# %%
text = handbook(600, 4)
story = []
print(heads)
for wait, key in ((0, "mine"), (299, "mine"), (299, "mine"), (300, "mine"), (0, "another key")):
    server.advance(wait)
    name = f"{wait:>3} s later, {key}" if story else "first request"
    story.append(show(name, ask(server.anthropic(key), [marked(text)], questions[0])))
stored = story[0][0]
assert story == [(stored, 0), (0, stored), (0, stored), (stored, 0), (stored, 0)]

print("\nan entry of an hour, for the instructions only; the documents behind it change")
long = [show("first document", ask(server.anthropic("hour"), [marked(text, "1h"), marked(handbook(300, 5))], "?"))]
for wait, seed in ((0, 6), (3599, 7)):
    server.advance(wait)
    answer = ask(server.anthropic("hour"), [marked(text, "1h"), marked(handbook(300, seed))], "?")
    long.append(show(f"{wait} s later, another document", answer))
assert long[0][1] == 0 and long[1][1] == long[2][1] == stored and long[2][0] < 400

# %% [markdown]
# The last line of the first part: the same text under another API key is a miss. Entries belong to one customer; otherwise the time of an answer would tell strangers what you have sent. (The real service keeps one cache for each workspace, on Bedrock and Google Cloud one for each organisation; here each API key stands for a workspace.)
#
# The second part has two breakpoints. When the document changes, the longest prefix that is still equal is read, here the instructions, and only what follows is written anew.
#
# Now the minimum. The published guide whose topics this course follows has an example with a system prompt of 2,000 tokens for claude-sonnet-4-6, and says that it is cached. Is it?

# %%
text, found = handbook(1950, 8), {}
print(heads)
for name in (SONNET, "claude-opus-4-7") if FAST else (OPUS, SONNET, "claude-opus-4-7", "claude-haiku-4-5"):
    minimum = price_table.model(name).minimum
    written, _ = show(f"{name}, minimum {minimum}", ask(server.anthropic("minimum"), [marked(text)], "?", model=name))
    found[name] = written > 0
    assert found[name] == (minimum <= 1024)

# %% [markdown]
# Where the minimum is 2,048 or 4,096 the mark does nothing: no error, no warning, zeros in both counts. For the guide's model the documentation says 1,024, and so does the local server; but users who measured (issue 1194 of Anthropic's Python SDK) saw nothing cached below 2,048. So look at the usage of your own requests.
#
# The service refuses other mistakes aloud. The first two stand in the guide's example:

# %%
import anthropic

attempts = {
    "the guide's model name": {"model": "cloud-sonnet-4-6", "max_tokens": 5},
    "no max_tokens, as in the guide": {"model": SONNET},
    "five breakpoints": {"model": SONNET, "max_tokens": 5, "system": [marked("Be kind.")] * 5},
}
refused = []
for name, arguments in attempts.items():
    try:
        server.anthropic().messages.create(messages=[{"role": "user", "content": "Hello"}], **arguments)
    except (anthropic.APIStatusError, TypeError) as error:
        refused.append(name)
        reason = error.body["error"]["message"] if isinstance(error, anthropic.APIStatusError) else str(error)
        print(f"{name:32} {type(error).__name__}: {reason}")
assert refused == list(attempts)

# %% [markdown]
# ### Exercise: `request_cost`
#
# *15 minutes · difficulty 2 of 5 · 3 points*
#
# From the `usage` that comes back with an answer to dollars. The keys are those of the Messages API.


# %% exercise="request_cost" minutes=15 difficulty=2 closed=["kvlab.providers.prices.request_cost"]
# exercise: request_cost
def request_cost(usage: dict, prices: dict[str, float]) -> float:
    """What one request costs, in dollars, by the usage that came back with its answer.

    usage: numbers of tokens. Each token of the prompt is counted in one of the first three, and only there:
      "input_tokens"                 neither written to the cache nor read from it
      "cache_creation_input_tokens"  written to the cache
      "cache_read_input_tokens"      read from the cache
      "output_tokens"                generated
    A key that is missing counts 0, and so does None. Other keys are ignored, whatever their values are.
    prices: dollars per million tokens, always all four: "input", "cache_write", "cache_read", "output".
    Returns the sum, not rounded. A negative count of one of the four kinds raises ValueError. Both dicts stay as they are.
    You may not call here: kvlab.providers.prices.request_cost.
    """
    ### BEGIN SOLUTION
    kinds = {
        "input_tokens": "input",
        "cache_creation_input_tokens": "cache_write",
        "cache_read_input_tokens": "cache_read",
        "output_tokens": "output",
    }
    cost = 0.0
    for key, price in kinds.items():
        count = usage.get(key) or 0
        if count < 0:
            raise ValueError(f"{key} is negative: {count}")
        cost += count * prices[price] / 1e6
    return cost
    ### END SOLUTION


# %% [markdown] hints="request_cost"
# 1. Four kinds of tokens, four prices: which key of `usage` belongs to which key of `prices`? Write the pairs down.
# 2. The counts do not overlap. So nothing has to be subtracted: four products are added up. What is left is the unit of the prices.
# 3. Ask the dict for a key with a value for the case that it is missing, then take care of None too. Check each of the four counts, not their sum.

# %% check="request_cost" points=3
with check.exercise("request_cost") as t:
    # made-up prices, so that no two kinds cost the same
    prices = {"input": 4.0, "cache_write": 5.0, "cache_read": 0.5, "output": 20.0}
    usage = {
        "input_tokens": 300,
        "cache_creation_input_tokens": 2000,
        "cache_read_input_tokens": 7000,
        "output_tokens": 150,
    }
    zeros = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 0}
    t.close(
        request_cost({"input_tokens": 250_000, **zeros}, prices),
        1.0,  # a quarter of 4 dollars
        "prices are dollars per million tokens",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        request_cost({**zeros, "input_tokens": 3}, prices),
        1.2e-5,
        "a small request costs a fraction of a cent: the result is not rounded",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        request_cost({**zeros, "input_tokens": 0, "output_tokens": 100_000}, prices),
        2.0,
        "tokens of the answer have a price of their own: output",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        request_cost({**zeros, "input_tokens": 0, "cache_creation_input_tokens": 600_000}, prices),
        3.0,
        "tokens written to the cache cost cache_write, and change nothing else in the bill",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        request_cost({**zeros, "input_tokens": 0, "cache_read_input_tokens": 800_000}, prices),
        0.4,
        "tokens read from the cache cost cache_read, and change nothing else in the bill",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        request_cost(usage, prices),
        0.0012 + 0.01 + 0.0035 + 0.003,
        "the counts do not overlap: four products are added up, nothing is subtracted from input_tokens",
        rtol=1e-6,
        atol=0,
    )
    t.close(request_cost({"output_tokens": 50_000}, prices), 1.0, "a key that is missing counts 0", rtol=1e-6, atol=0)
    t.close(request_cost({}, prices), 0.0, "no tokens, no cost", rtol=0, atol=0)
    t.close(
        request_cost({"input_tokens": 500_000, "cache_read_input_tokens": None, "output_tokens": None}, prices),
        2.0,
        "None counts 0: the services send it for what they do not report",
        rtol=1e-6,
        atol=0,
    )
    t.close(
        request_cost({"input_tokens": 500_000, "total_tokens": 900_000, "service_tier": "standard"}, prices),
        2.0,
        "other keys of usage are ignored, numbers too: the four kinds are all that is billed",
        rtol=1e-6,
        atol=0,
    )
    short = {"input_tokens": 300, "cache_read_input_tokens": None}
    before = dict(short), dict(prices)
    request_cost(short, prices)
    t.unchanged(before, (short, prices), "both dicts stay as they are: nothing is filled in")
    for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"):
        t.raises(
            ValueError,
            lambda key=key: request_cost({**usage, key: -1}, prices),
            f"a negative {key} makes no sense, whatever the other counts are",
        )

# %% [markdown]
# ### A conversation of 20 turns
#
# In a chat the whole conversation is sent again with every turn. With one `cache_control` at the top level, each turn reads what was there and writes what is new.
# The bill is made twice: from the usage of each answer, and by the rules alone, from the lengths of the prompts (`count_tokens` computes nothing and costs nothing).

# %%
turns = 5 if FAST else 20
client, per_million = server.anthropic("conversation"), price_table.model(SONNET).per_million()
system, messages, usages, lengths = handbook(1100, 9), [], [], []
for turn in range(turns):
    messages.append({"role": "user", "content": f"{questions[turn % 4]} Tell me more, in a few words."})
    prompt = {"model": SONNET, "system": system, "messages": messages}
    lengths.append(client.messages.count_tokens(**prompt).input_tokens)
    answer = client.messages.create(**prompt, max_tokens=12, cache_control={"type": "ephemeral"})
    usages.append(answer.usage)
    messages.append({"role": "assistant", "content": answer.content[0].text.strip() or "Nothing."})
    server.advance(60)

behind = usages[0].input_tokens  # the few tokens behind the mark, where the answer begins
ends = [length - behind for length in lengths]
by_rule = [
    {
        "input_tokens": behind,
        "cache_creation_input_tokens": end - start,
        "cache_read_input_tokens": start,
        "output_tokens": usage.output_tokens,
    }
    for start, end, usage in zip([0, *ends], ends, usages, strict=False)
]
with_cache = np.cumsum([cost(usage, SONNET) for usage in usages])
without = np.cumsum([cost(usage, SONNET, cached=False) for usage in usages])
calculated = sum(providers.request_cost(usage, per_million) for usage in by_rule)
plain = sum(
    providers.request_cost({"input_tokens": length, "output_tokens": usage.output_tokens}, per_million)
    for length, usage in zip(lengths, usages, strict=True)
)
assert abs(with_cache[-1] - calculated) < 1e-9 and abs(without[-1] - plain) < 1e-9, "two ways to the same bill"
print(f"{turns} turns, the last prompt has {lengths[-1]:,} tokens; all prompts together {sum(lengths):,}")
print(f"with caching    {with_cache[-1]:.6f} dollars from usage, {calculated:.6f} by the rules")
print(f"without caching {without[-1]:.6f} dollars from usage, {plain:.6f} by the rules")
print(f"saved: {1 - with_cache[-1] / without[-1]:.0%} ({SONNET}, prices read on {price_table.read_on()})")

figure = plots.lines(
    {
        name: (list(range(1, turns + 1)), 100 * bill)
        for name, bill in {"without caching": without, "with caching": with_cache}.items()
    },
    xlabel="turn",
    ylabel="cost so far (US cents)",
    title=f"A conversation of {turns} turns",
)
figure.axes[0].xaxis.get_major_locator().set_params(integer=True)
figure

# %% [markdown]
# *The figure: the cost so far, turn by turn. With caching the first turn is a little dearer; from the second on the line without caching rises several times as steeply.*
#
# ### An afternoon of questions about one document
#
# Now many users ask about one manual, at random times, as in RAG when all questions lead to the same pages. Each gap as long as the TTL or longer is a miss. The calculator of the next cell knows only the arrival times, the lengths and the rules; the server is asked for real, on its clock.


# %%
def day_of_usage(arrivals, ttl, prefix, rest, answer):
    """The usage of each request by Anthropic's rules: a hit within ttl seconds of the last use, else a write."""
    usages, last = [], -math.inf
    for now in arrivals:
        hit = now - last < ttl
        kind = "cache_read_input_tokens" if hit else "cache_creation_input_tokens"
        usages.append({"input_tokens": rest, kind: prefix, "output_tokens": answer})
        last = now
    return usages


def dollars(usages, ttl, model_id):
    """The bill of all these requests, in dollars."""
    per_million = price_table.model(model_id).per_million("1h" if ttl == 3600 else "5m")
    return sum(providers.request_cost(usage, per_million) for usage in usages)


rng = np.random.default_rng(SEED)
arrivals = np.sort(rng.integers(0, 4 * 3600, 6 if FAST else 40))  # seconds of one afternoon of four hours
manual = handbook(600, 10)
print(f"{len(arrivals)} questions in four hours about a manual of {len(tokenizer.encode(manual))} tokens, {OPUS}\n")
for name, ttl in (("5m", 300), ("1h", 3600)):
    client, begun, answers = server.anthropic(f"day {name}"), 0, []
    for now in arrivals:
        server.advance(float(now - begun))
        begun = now
        answers.append(ask(client, [marked(manual, name)], questions[0], model=OPUS, max_tokens=1))
    usages = [answer.usage for answer in answers]
    prefix, rest = usages[0].cache_creation_input_tokens, usages[0].input_tokens
    from_usage = sum(cost(usage, OPUS) for usage in usages)
    by_rule = dollars(day_of_usage(arrivals, ttl, prefix, rest, 1), ttl, OPUS)
    without = sum(cost(usage, OPUS, cached=False) for usage in usages)
    plain = dollars([{"input_tokens": prefix + rest, "output_tokens": 1}] * len(arrivals), ttl, OPUS)
    assert abs(from_usage - by_rule) < 1e-9 and abs(without - plain) < 1e-9
    hits = sum(usage.cache_read_input_tokens > 0 for usage in usages)
    print(
        f"ttl {name}: {hits} hits; {from_usage:.6f} dollars from usage, {by_rule:.6f} by the rules, {without:.6f} without caching"
    )
    server.advance(7200)

# %% [markdown]
# The two bills agree, so the calculator may go on alone, to a manual of 20,000 tokens and to other rates. This is arithmetic with random arrival times: no request is made.

# %%
rates, n_questions = (0.2, 0.5, 1, 3, 6, 12, 30, 100), 2000  # as many for each rate, so that all are equally exact
share = {"5 minutes": [], "1 hour": []}
for rate in rates:
    arrivals = np.sort(rng.uniform(0, 3600 * n_questions / rate, n_questions))
    none = dollars([{"input_tokens": 20_050, "output_tokens": 200}] * len(arrivals), 300, SONNET)
    for name, ttl in (("5 minutes", 300), ("1 hour", 3600)):
        share[name].append(dollars(day_of_usage(arrivals, ttl, 20_000, 50, 200), ttl, SONNET) / none)
print(f"cost against no caching ({SONNET}, 20,000 tokens of manual, 50 of question, 200 of answer)")
for rate, short, long in zip(rates, *share.values(), strict=True):
    print(f"{rate:>5} questions an hour: {short:.2f} with 5 minutes, {long:.2f} with an hour")
assert share["1 hour"][0] > share["5 minutes"][0] > 1 > share["5 minutes"][-1] and share["1 hour"][-1] > 0.1
assert share["1 hour"][rates.index(1)] < 1 < share["5 minutes"][rates.index(1)], "at one an hour only the hour pays"

plots.lines(
    {f"ttl {name}": (list(rates), found) for name, found in share.items()},
    xlabel="questions per hour",
    ylabel="cost, no caching = 1",
    title="Caching pays when the next question comes in time",
    logx=True,
)

# %% [markdown]
# *The figure: cost against no caching, over the rate of questions. At one question in five hours both cost more than no caching, and the hour most. Both lines fall; that of the hour falls first, crosses the other at about one question in two hours and lies lower from there on, until at 100 questions an hour the two meet near 0.15.*
#
# A miss costs a write, and a write for an hour costs more. So below about one question in two hours the hour costs most. From there to about 30 an hour it is the cheaper one, since it catches more of the later requests; at 100 five minutes are enough.
#
# ### Break-even
#
# How many requests with one prefix are needed before caching is cheaper, if all come in time?

# %%
print("price of the prefix for n requests; sending it n times costs n\n")
print(f"{'':42}{'n = 1':>8}{'2':>8}{'3':>8}{'4':>8}{'cheaper from':>15}")
cases = {"Anthropic, 5 minutes (" + SONNET + ")": (SONNET, "5m"), "Anthropic, 1 hour": (SONNET, "1h")}
cases |= {f"OpenAI, {name}": (name, "5m") for name in ("gpt-4o", "gpt-4.1", "gpt-5.4", "gpt-5.6-sol")}
pays_from = {}
for name, (model_id, ttl) in cases.items():
    four = price_table.model(model_id).per_million(ttl)
    write, read = four["cache_write"] / four["input"], four["cache_read"] / four["input"]
    paid = [write + (n - 1) * read for n in range(1, 5)]
    pays_from[name] = providers.break_even_requests(write, read)
    print(f"{name:42}" + "".join(f"{value:>8.2f}" for value in paid) + f"{pays_from[name]:>15}")
    assert pays_from[name] == next(n for n, value in enumerate(paid, 1) if value < n - 1e-9)
assert [pays_from[name] for name in list(cases)[:2]] == [2, 3]

# %% [markdown]
# ### Exercise: `break_even_requests`
#
# *15 minutes · difficulty 2 of 5 · 2 points*
#
# Writing to the cache costs more than plain input, reading costs less. From how many requests on does it pay?


# %% exercise="break_even_requests" minutes=15 difficulty=2 closed=["kvlab.providers.rules.break_even_requests"]
# exercise: break_even_requests
def break_even_requests(write_multiplier: float, read_multiplier: float) -> int:
    """The smallest number of requests with one common prefix for which caching costs strictly less than not caching.

    Without a cache each request pays the prefix once, at a price of 1. With it the first request writes the prefix and
    pays write_multiplier, each later one reads it and pays read_multiplier. Only the prefix is compared.
    Both multipliers are at least 0. Providers take such as 1.25 and 0.1: that gives 2.
    A write below 1 pays from the first request on, whatever a read costs: 1.
    A write above 1 with a read of 1 or more never pays: ValueError.
    A tie is not cheaper, so (1.0, 0.5) gives 2; but ties are not graded, as floats may miss them.
    You may not call here: kvlab.providers.rules.break_even_requests.
    """
    ### BEGIN SOLUTION
    if write_multiplier < 1:
        return 1
    if read_multiplier >= 1:
        raise ValueError(f"with a read at {read_multiplier} times the price of input, caching never pays")
    # n > (write - read) / (1 - read), solved from write + (n - 1) * read < n
    return math.floor((write_multiplier - read_multiplier) / (1 - read_multiplier)) + 1
    ### END SOLUTION


# %% [markdown] hints="break_even_requests"
# 1. Make a table for 1.25 and 0.1: number of requests, price without a cache, price with it. One request writes and reads nothing.
# 2. For n requests: n on one side; on the other one write and n - 1 reads. A loop that adds a read at a time is a full answer, if it is sure to end.
# 3. When does it never end? Each further request gains 1 minus a read. If that is not positive, what the write cost too much is never won back. A write below 1 needs no further request.

# %% check="break_even_requests" points=2
with check.exercise("break_even_requests") as t:
    t.equal(
        break_even_requests(1.25, 0.1),
        2,
        "two requests: 1.25 + 0.1 with a cache, 2 without. The one that writes counts too",
    )
    t.equal(break_even_requests(2.0, 0.1), 3, "two requests: 2.1 with a cache, 2 without, so not yet. Three: 2.2 and 3")
    t.equal(
        break_even_requests(1.25, 0.8),
        3,
        "two requests: 2.05 and 2. Three: 2.85 and 3. The first one writes only, each later one reads",
    )
    t.equal(break_even_requests(4.5, 0.25), 6, "five requests: 5.5 and 5. Six: 5.75 and 6. Each later request reads")
    t.equal(break_even_requests(3.5, 0.0), 4, "reads for nothing: 3.5 is more than 3 and less than 4")
    t.equal(break_even_requests(2.0, 0.997), 335, "a small gain each time: it takes long, but it pays in the end")
    t.equal(break_even_requests(0.9, 0.5), 1, "a write below 1 pays from the first request on")
    t.equal(
        break_even_requests(0.5, 0.8), 1, "a write below 1 pays from the first request on: 1 is the smallest number"
    )
    t.equal(break_even_requests(0.5, 1.5), 1, "one request writes and does not read: a dear read changes nothing")
    t.raises(ValueError, lambda: break_even_requests(1.25, 1.2), "each read costs more than input: it never pays")
    t.raises(ValueError, lambda: break_even_requests(1.25, 1.0), "a read at the price of input wins nothing back")
    t.raises(ValueError, lambda: break_even_requests(3.5, 3.75), "each read costs more than input: it never pays")

# %% [markdown]
# The widget below asks the same for any model of the table, any length and 1 to 12 requests, answers included.

# %%
widgets.break_even(SONNET, ttl="5m", prefix=2000, fresh=20, answer=100)

# %% [markdown]
# *The figure: dollars for 1 to 12 requests, with caching and without; the sliders count tokens. At the start, with entries that live for 5 minutes, caching is dearer for one request; from the second on it is cheaper, and the gap grows.*

# %%
claims.show(card=12)

# %% [markdown]
# ## Card 13 · OpenAI: automatic, in steps
#
# OpenAI caches without being asked. A prompt of 1,024 tokens or more is kept, and a later one with the same beginning pays less for what is shared. What a read costs depends on the model; the other rules depend on its generation:
#
# - up to GPT-5.5: 1,024 tokens and then whole steps of 128 are found again. A write costs nothing extra. An entry in memory lives for 5 to 10 minutes without use (the local server takes 10); `prompt_cache_retention="24h"` keeps it for up to 24 hours, on models that offer it;
# - from GPT-5.6 on: prefixes match at breakpoints, a write costs 1.25 times the input price, and an entry lives for at least 30 minutes.
#
# The local server and the exercise follow the older rules.
#
# The usage has another form: `prompt_tokens` is the *whole* prompt, and `prompt_tokens_details.cached_tokens` says how many of them were read. Anthropic's `input_tokens` leaves out what was read. Who adds up both in one way counts wrong.

# %%
quiz.predict(
    "2,006 tokens are shared with an earlier prompt to gpt-4o. How many does OpenAI count as cached?",
    options=["1,920", "1,984", "2,006"],
    answer="1,920",
    reveal="1,024 and 7 steps of 128. The remaining 86 tokens are no whole step and are computed and paid in full.",
)

# %% [markdown]
# Both packages, one server, one text, the same four questions. **This is the cell that follows `LIVE`**: with `LIVE = True` and your keys it sends eight requests to the real services, for a few cents. The text has 2,004 tokens for the local model and fewer for the real ones, so the real claude-sonnet-4-6 may show zeros (see the minimum in card 12).

# %%
both, text = clients(LIVE, server), handbook(2000, 11)
print(both.sentence)
both.reach()  # without a network a sentence says what to do
print(
    f"\n{'':10}{'anthropic: input':>18}{'written':>9}{'read':>7}{'cents':>8}{'openai: prompt':>17}{'cached':>8}{'cents':>8}"
)
bills = {SONNET: [], GPT: []}
for number, question in enumerate(questions, 1):
    user = {"role": "user", "content": question}
    left = both.anthropic.messages.create(model=SONNET, max_tokens=5, system=[marked(text)], messages=[user])
    right = both.openai.chat.completions.create(
        model=GPT, max_tokens=5, messages=[{"role": "system", "content": text}, user]
    )
    one, two, cached = left.usage, right.usage, right.usage.prompt_tokens_details.cached_tokens
    bills[SONNET].append((cost(one, SONNET), cost(one, SONNET, cached=False)))
    bills[GPT].append((cost(two, GPT), cost(two, GPT, cached=False)))
    print(
        f"request {number:<2}{one.input_tokens:>18}{one.cache_creation_input_tokens:>9}{one.cache_read_input_tokens:>7}"
        f"{100 * bills[SONNET][-1][0]:>8.3f}{two.prompt_tokens:>17}{cached:>8}{100 * bills[GPT][-1][0]:>8.3f}"
    )
    if not both.live:
        assert cached == (0 if number == 1 else providers.openai_cached_tokens(len(tokenizer.encode(text))))
        assert (one.cache_read_input_tokens > 0) == (number > 1) == (one.cache_creation_input_tokens == 0)
for name, pairs in bills.items():
    paid, without = map(sum, zip(*pairs, strict=True))
    print(f"{name}: {100 * paid:.3f} cents, {100 * without:.3f} without caching: {1 - paid / without:.0%} saved")
    assert both.live or paid < without

# %% [markdown]
# The two discounts are not a property of two companies but of models and dates. The table below is the one that all bills here use. It was read on the day it names and will age: before you budget, look at the provider's own page.

# %%
print(price_table.table())
print("price of a read, input = 1:")
for row in price_table.models("openai"):
    print(f"  {row.id:14} {row.cache_read / row.input:.3f}   a write {row.cache_write / row.input:.2f}")
disagreeing = [row.id for row in price_table.models() if "disagree" in row.note]
print(f"rows where sources disagree: {', '.join(disagreeing)}")
assert disagreeing

# %% [markdown]
# Now the steps, the time to live, and two customers. `prompt_cache_key` tells OpenAI which requests belong together, so that they reach the same machine; here each `prompt_cache_key` is a machine of its own. *Another key* in the output is another API key.


# %%
def chat(key, system, **more):
    """One request in OpenAI's format; returns the answer and how many tokens were cached."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "What now?"}]
    answer = server.openai(key).chat.completions.create(model=GPT, max_tokens=3, messages=messages, **more)
    return answer, answer.usage.prompt_tokens_details.cached_tokens


for n_tokens in (1040,) if FAST else (900, 1040, 1320):
    prefix = handbook(n_tokens, 12)
    found = [chat(f"{n_tokens} tokens", prefix)[1] for _ in range(2)]
    print(f"a prefix of about {n_tokens:>5} tokens: first {found[0]}, then {found[1]} cached")
    assert found == [0, providers.openai_cached_tokens(len(tokenizer.encode(prefix)))]

prefix, seen = handbook(1100, 13), []
print()
for wait, key, more in (
    (0, "mine", {}),
    (599, "mine", {}),
    (600, "mine", {}),
    (0, "another key", {}),
    (0, "mine", {"prompt_cache_key": "team B"}),
    (0, "mine", {}),
):
    server.advance(wait)
    seen.append(chat(key, prefix, **more)[1])
    print(f"{wait:>3} s later, {key:12}{more or ''!s:34} cached {seen[-1]:>5}")
assert seen == [0, 1024, 0, 0, 0, 1024]

# %% [markdown]
# ### Exercise: `openai_cached_tokens`
#
# *10 minutes · difficulty 1 of 5 · 2 points*


# %% exercise="openai_cached_tokens" minutes=10 difficulty=1 closed=["kvlab.providers.rules.openai_cached_tokens"]
# exercise: openai_cached_tokens
def openai_cached_tokens(shared_prefix: int, minimum: int = 1024, step: int = 128) -> int:
    """How many tokens of a prompt are billed as cached, when its first shared_prefix tokens agree with an earlier one.

    Below `minimum` tokens nothing is cached: 0. From there on it is the minimum and, above it, whole steps of `step`
    tokens. The steps are counted from the minimum, which need not be a multiple of the step.
    A negative shared_prefix, a negative minimum or a step below 1 raises ValueError.
    You may not call here: kvlab.providers.rules.openai_cached_tokens.
    """
    ### BEGIN SOLUTION
    if shared_prefix < 0 or minimum < 0 or step < 1:
        raise ValueError(f"need tokens of at least 0 and a step of at least 1, got {shared_prefix}, {minimum}, {step}")
    above = shared_prefix - minimum
    return shared_prefix - above % step if above >= 0 else 0
    ### END SOLUTION


# %% [markdown] hints="openai_cached_tokens"
# 1. Mark 1,024 on a line, then 1,152 and 1,280. Where do 1,023, 1,024, 1,151 and 1,200 fall, and what is left of each?
# 2. Two parts: is there a minimum at all, and how many whole steps fit between the minimum and the prefix?
# 3. Whole-number division of what lies above the minimum gives the number of steps. Try a minimum of 1,000: counting steps from 0 gives another result.

# %% check="openai_cached_tokens" points=2
with check.exercise("openai_cached_tokens") as t:
    t.equal(openai_cached_tokens(0), 0, "nothing agrees, nothing is cached")
    t.equal(openai_cached_tokens(1023), 0, "one token below the minimum: nothing is cached")
    t.equal(openai_cached_tokens(1024), 1024, "just the minimum is enough")
    t.equal(openai_cached_tokens(1280), 1280, "the minimum and two whole steps: all of it counts")
    t.equal(openai_cached_tokens(1151), 1024, "127 tokens above the minimum are no whole step: rounded down")
    t.equal(openai_cached_tokens(2500), 2432, "the minimum and 11 whole steps; the 68 tokens beyond are computed")
    t.equal(openai_cached_tokens(1300, minimum=1000), 1256, "steps count from the minimum, not from 0: 1000 + 2 * 128")
    t.equal(openai_cached_tokens(700, minimum=500), 628, "the minimum is an argument: 500 is enough here")
    t.equal(openai_cached_tokens(1300, step=100), 1224, "the step is an argument: 1024 + 2 * 100")
    t.equal(openai_cached_tokens(90, 40, 15), 85, "40 + 3 * 15, with both given by position")
    t.raises(ValueError, lambda: openai_cached_tokens(-1), "a negative prefix makes no sense")
    t.raises(ValueError, lambda: openai_cached_tokens(2000, step=0), "a step of 0 leads nowhere")
    t.raises(ValueError, lambda: openai_cached_tokens(2000, step=-128), "a step below 0 leads nowhere")
    t.raises(ValueError, lambda: openai_cached_tokens(500, step=0), "a step of 0 is refused below the minimum too")
    t.raises(ValueError, lambda: openai_cached_tokens(2000, minimum=-1), "a negative minimum makes no sense")

# %% [markdown]
# ### The usage of a streamed answer
#
# A **streamed** answer comes piece by piece, as a list of events, and several of them carry a usage. The counts are cumulative: each is the total so far. The cell shows them, and what becomes of the bill when somebody adds them up. That mistake is one of the named faults of this course, and `faults.plant` switches it on for the length of a block.

# %%
text = handbook(600, 14)
ask(server.anthropic("stream"), [marked(text)], "?")
reports = []
for event in ask(server.anthropic("stream"), [marked(text)], questions[0], max_tokens=40, stream=True):
    usage = {"message_start": lambda e: e.message.usage, "message_delta": lambda e: e.usage}.get(event.type)
    if usage is not None:
        reports.append(usage(event).model_dump(include={"input_tokens", "cache_read_input_tokens", "output_tokens"}))
        print(f"{event.type:14} {reports[-1]}")
whole = ask(server.anthropic("stream"), [marked(text)], questions[0], max_tokens=40).usage
right = providers.merge_usage(reports)
with faults.plant("usage_added_up"):
    wrong = providers.merge_usage(reports)
print(f"\nmerged   {right}: {100 * cost(right, OPUS):.4f} cents")
print(f"added up {wrong}: {100 * cost(wrong, OPUS):.4f} cents")
print(f"the same answer in one piece: {100 * cost(whole, OPUS):.4f} cents")
assert abs(cost(right, OPUS) - cost(whole, OPUS)) < 1e-12 < cost(wrong, OPUS) - cost(whole, OPUS)

events = list(
    server.openai("stream").chat.completions.create(
        model=GPT,
        max_tokens=8,
        messages=[{"role": "system", "content": text}, {"role": "user", "content": "What now?"}],
        stream=True,
        stream_options={"include_usage": True},
    )
)
carrying = [event for event in events if event.usage is not None]
print(
    f"\nOpenAI: {len(events)} events, {len(carrying)} of them with a usage: {carrying[-1].usage.prompt_tokens} prompt tokens"
)
assert carrying == events[-1:] and carrying[0].choices == []

# %% [markdown]
# With OpenAI only the last event has a usage, and only if you ask for it with `stream_options`. Anthropic's first event already has the final counts of the prompt; only `output_tokens` grows.

# %% [markdown]
# ### Exercise: `merge_usage`
#
# *10 minutes · difficulty 2 of 5 · 2 points*
#
# A streamed answer reports its usage more than once, and the counts grow. Who adds the reports up counts tokens twice.


# %% exercise="merge_usage" minutes=10 difficulty=2 closed=["kvlab.providers.rules.merge_usage"]
# exercise: merge_usage
def merge_usage(events: list[dict]) -> dict:
    """One usage from all that a streamed answer reported, each token counted once.

    events: the usage dicts of one answer, in the order in which they came. Not all have the same keys, and a value may
    be None. Counts are cumulative: each report holds the total up to then, so a count never falls.
    Returns a dict with, for each key, the last value that is not None; 0 is a value. Nothing is added up.
    A key that never has a value may be left out or be None. No events give {}. The events stay as they are.
    You may not call here: kvlab.providers.rules.merge_usage.
    """
    ### BEGIN SOLUTION
    merged: dict = {}
    for event in events:
        merged |= {key: value for key, value in event.items() if value is not None}
    return merged
    ### END SOLUTION


# %% [markdown] hints="merge_usage"
# 1. Write down three reports of one answer, with output tokens 1, 5 and 9. How many tokens did the answer have?
# 2. Start with an empty dict of your own, go through the events in order, and let later values replace earlier ones.
# 3. Two values look alike and are not: None says nothing and must not replace a count, 0 is a count. So test for None itself, not for truth.


# %% check="merge_usage" points=2
def kept(usage, *keys):
    """The values of these keys; others are not looked at."""
    return {key: usage[key] for key in keys if key in usage} if isinstance(usage, dict) else usage


with check.exercise("merge_usage") as t:
    events = [{"input_tokens": 25, "output_tokens": 1}, {"input_tokens": 25, "output_tokens": 15}]
    before = [dict(event) for event in events]
    merge_usage(events)
    t.unchanged(before, events, "the list and its dicts stay as they are: build a dict of your own")
    t.equal(
        kept(merge_usage([{"input_tokens": 25, "output_tokens": 7}]), "input_tokens", "output_tokens"),
        {"input_tokens": 25, "output_tokens": 7},
        "one report: all of its counts",
    )
    t.equal(
        kept(merge_usage([{"output_tokens": 1}, {"output_tokens": 6}, {"output_tokens": 15}]), "output_tokens"),
        {"output_tokens": 15},
        "each report holds the total up to then: the last value counts, nothing is added up",
    )
    t.equal(
        kept(
            merge_usage([{"prompt_tokens": 8, "cached_tokens": 2}, {"prompt_tokens": 8, "cached_tokens": 4}]),
            "prompt_tokens",
            "cached_tokens",
        ),
        {"prompt_tokens": 8, "cached_tokens": 4},
        "the rule is the same for every key, whatever its name",
    )
    t.equal(
        kept(merge_usage([{"input_tokens": 25}, {"output_tokens": 15}]), "input_tokens", "output_tokens"),
        {"input_tokens": 25, "output_tokens": 15},
        "a key that only the first report has is kept, and one that comes later is added",
    )
    t.equal(
        kept(merge_usage([{"output_tokens": 6}, {"output_tokens": None}]), "output_tokens"),
        {"output_tokens": 6},
        "None says nothing: it does not replace a count",
    )
    t.equal(
        kept(merge_usage([{"output_tokens": None}, {"output_tokens": 6}]), "output_tokens"),
        {"output_tokens": 6},
        "a count replaces None",
    )
    t.equal(
        kept(merge_usage([{"cache_read_input_tokens": 0}, {"output_tokens": 3}]), "cache_read_input_tokens"),
        {"cache_read_input_tokens": 0},
        "0 is a count: nothing was read, and the result says so",
    )
    t.equal(merge_usage([]), {}, "no events: an empty dict")

# %%
claims.show(card=13)

# %% [markdown]
# ## Try it
#
# Two requests, one after the other. Change the first line of the second one, the length of the handbook behind it (in tokens), the pause between the two, the model. The figure shows where the prompts part and what the server read, wrote and computed; each change sends two real requests through the SDK, which takes a second or two.

# %%
widgets.prompt_cache(server)

# %% [markdown]
# *The figure: one bar for each request, cut into read, written and the rest, in tokens. A dashed line marks the first token that differs, a dotted one the last whole block of the cache before it. At the start they are 1,137 and 1,136 and look like one line behind the handbook (another length moves them up to 15 tokens apart), and the second bar is almost all read.*
#
# ### Break the cache
#
# An engine must know a block of 16 tokens by more than these tokens. What if it forgets that?

# %%
quiz.predict(
    "The engine looks a block up by its own tokens only, not by those before it. Two documents, each of which fills whole blocks of 16 tokens, then change places in the prompt. What happens?",
    options=["A miss, and the right answer", "A hit, and keys and values of another text", "An error"],
    answer="A hit, and keys and values of another text",
    reveal="Every block is found, so the engine is fast and the usage looks splendid. But the same 16 tokens after another beginning have other keys and values: the blocks were computed at other positions, after other tokens. Nothing is raised.",
)

# %%
widgets.break_prefix(model, fault="prefix_forgotten")

# %% [markdown]
# *The figure: for each request the largest difference of a logit from a run without any cache. With this fault it is 0 or rounding (about 10⁻⁵) for the other requests and clearly above zero for the one whose documents changed places.*

# %%
for fault in widgets.PREFIX_FAULTS:
    result = widgets.run_prefix_fault(model, fault)
    red = [name for name, passes in result["checks"].items() if not passes]
    print(f"{fault:20} red: {'; '.join(red) or 'none'}")
    print(f"    {'nothing is planted' if fault == 'none' else faults.FAULTS[fault].summary}")
    print(f"    {result['texts']['documents turned']!r}")
    assert bool(red) == (fault != "none")
    if fault == "prefix_forgotten":
        assert result["texts"]["documents turned"] == result["texts"]["first"]

# %% [markdown]
# With the first fault the turned request gets exactly the answer of the earlier one: its keys and values carry the old positions, and attention does not mind in which block they lie.
# The order of your documents would have no effect, and the usage would praise the cache.
#
# The fault of the salt changes no text at all: the stranger's answer is right. (A **salt** is a name mixed into the hash of the first block, one for each customer.) It is still a leak: a stranger can try beginnings and see from the usage, or from the time, which of them you have sent.

# %% [markdown] manual="order_the_prompt" points=3
# ### In your own words
#
# **Question.** The system prompt of a support assistant holds, in this order, the date and time, the customer's name and 3,000 tokens of instructions. It has five tools (from a set, so in any order). Its messages begin with 6,000 tokens of product pages that fit the question; then come the conversation so far and the new message. All of it is marked for Anthropic's cache, for five minutes. The usage shows no cache reads, and the prompts cost nearly 25 % more than before the marks were set.
# Say why, give a better order with its breakpoints (Anthropic) and their TTLs, and say what you would measure to see that it works. Four to seven sentences.
#
# ### BEGIN SOLUTION
# Why: the prompt is rendered tools, system, messages. The tools come first and in another order, and date and time differ in every request; so nothing behind them is ever the same, each request writes an entry at 1.25 times the price and none reads it: the 25 % (1 point).
# Order: tools, sorted and serialised in one fixed way, then the instructions, with a breakpoint behind them (an hour, if questions come less often than every five minutes); then the conversation, with a breakpoint behind the last message, or the automatic one (5 minutes); the product pages, which change with the question, together with date, time and name behind the last breakpoint, near the new message. Product pages that stay for several turns may have a breakpoint of their own. A TTL of an hour stands before one of five minutes (1 point).
# Measure: the three input counts of the usage, share of reads over all prompt tokens, cost against what the same counts would cost without caching; TTFT of hits and misses; the first byte in which two prompts in a row differ; that the prefix is above the model's minimum (1 point).
# ### END SOLUTION

# %% [markdown]
# ## Check what you know
#
# Five questions, ungraded. A wrong option explains itself.

# %%
quiz.show("04_prompt_caching")

# %%
glossary.show(
    [
        "prompt caching",
        "prefix",
        "cache hit",
        "breakpoint",
        "TTL",
        "system prompt",
        "RAG",
        "usage",
        "streamed",
        "salt",
        "prefix cache",
        "block",
        "prefill",
        "TTFT",
    ]
)

# %% [markdown]
# ## Recap
#
# - Keys and values depend on what stands before them, so prompts share their beginning and nothing behind the first differing byte.
# - Static first: tools, instructions, documents, conversation, question. Sort what has no order of its own.
# - Anthropic: marked prefixes, a minimum by model, 5 minutes or an hour from the start of the last use. A write costs more than plain input, so what is never read costs extra.
# - OpenAI: automatic; up to GPT-5.5 (so for gpt-4o) 1,024 tokens and steps of 128, later at breakpoints; the price of a read differs by model.
# - A hit is not meant to change a token. It saves prefill: money by the price table, time by what else you wait for.
# - Usage counts are reports, not increments. Check that a prompt is at least the minimum, and that reads show up.
#
# **Where this lives in real engines** (read on 30 November 2026; vLLM at commits 001cabc and c59cb79, SGLang at 006b0e3)
#
# | part | where |
# |---|---|
# | the hash of a block over the block before it, and the salt | vLLM, `vllm/v1/core/kv_cache_utils.py`: `hash_block_tokens`, `generate_block_hash_extra_keys` |
# | finding and keeping blocks | vLLM, `vllm/v1/core/block_pool.py`: `BlockPool` |
# | a tree of prefixes in place of hashes | SGLang, `python/sglang/srt/mem_cache/radix_cache.py`: `RadixCache.match_prefix` |
#
# **Next:** notebook 05 goes to the other end of the model: from logits to the next token.
