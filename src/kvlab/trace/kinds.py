"""The stages of one call, in order: what each computes, from what, and its axes. Shared by the trace and its shapes.

Letters in axes and formulas: n positions of this pass, m positions held then, D d_model, H query heads, G KV heads,
d numbers per head, F d_ff, V vocab_size.
"""

from dataclasses import dataclass

PREFILL, DECODE = "prefill", "decode"
PHASES = (PREFILL, DECODE)


@dataclass(frozen=True)
class Kind:
    """One stage. `weight` are the axes of the matrix (or of the norm's scale) that it reads, () where it reads none.

    `place`: "start", "block" (once in every block), "end", or "choice" (from logits to a token).
    """

    name: str
    place: str
    axes: tuple[str, ...]
    formula: str
    explanation: str
    weight: tuple[str, ...] = ()
    pairs: bool = False  # costs H · d multiply-adds for each (query, key) pair


KINDS = (
    Kind("bytes", "start", ("bytes",), "text as UTF-8", "The text as bytes; a letter outside ASCII takes two or more."),
    Kind("ids", "start", ("n",), "tokenizer(bytes)", "The tokenizer joins bytes to tokens; each has a number, its id."),
    Kind("rows", "start", ("n", "D"), "E[ids]", "Each id picks one row of the token table E: a look-up, no product."),
    Kind("rope cos", "start", ("n", "d/2"), "cos(position · frequency)", "RoPE: one angle per position and pair."),
    Kind("rope sin", "start", ("n", "d/2"), "sin(position · frequency)", "The sine of the same angles."),
    Kind(
        "norm 1",
        "block",
        ("n", "D"),
        "x / sqrt(mean(x²) + eps) · g",
        "RMSNorm: every row gets the same size, then each column its own scale g.",
        ("D",),
    ),
    Kind(
        "q",
        "block",
        ("H", "n", "d"),
        "h Wq, split into H heads",
        "Queries: what each position looks for.",
        ("D", "H·d"),
    ),
    Kind(
        "k",
        "block",
        ("G", "n", "d"),
        "h Wk, split into G heads",
        "Keys: what each position can be found by.",
        ("D", "G·d"),
    ),
    Kind(
        "v", "block", ("G", "n", "d"), "h Wv, split into G heads", "Values: what a position hands over.", ("D", "G·d")
    ),
    Kind(
        "q rotated",
        "block",
        ("H", "n", "d"),
        "q₁ cos − q₂ sin, q₂ cos + q₁ sin",
        "RoPE turns each pair (i, i + d/2) by its position's angle.",
    ),
    Kind(
        "k rotated",
        "block",
        ("G", "n", "d"),
        "k₁ cos − k₂ sin, k₂ cos + k₁ sin",
        "Keys are turned too, so a score depends on the distance of two positions only.",
    ),
    Kind(
        "keys held",
        "block",
        ("G", "m", "d"),
        "cache + new rows",
        "The K cache after this pass: earlier rows and the new ones.",
    ),
    Kind(
        "values held",
        "block",
        ("G", "m", "d"),
        "cache + new rows",
        "The V cache after this pass. Values are not turned.",
    ),
    Kind(
        "scores",
        "block",
        ("H", "n", "m"),
        "q · k / sqrt(d), −inf for later positions",
        "How well each query fits each key; H / G query heads share one KV head.",
        pairs=True,
    ),
    Kind(
        "weights", "block", ("H", "n", "m"), "softmax(scores)", "Each row sums to 1; a later position gets exactly 0."
    ),
    Kind(
        "mix",
        "block",
        ("n", "H·d"),
        "weights · v, heads side by side",
        "Every head's mean of the values, by those weights.",
        pairs=True,
    ),
    Kind(
        "attention out",
        "block",
        ("n", "D"),
        "mix Wo",
        "One matrix mixes the heads and comes back to width D.",
        ("H·d", "D"),
    ),
    Kind(
        "residual 1", "block", ("n", "D"), "x + attention out", "The block adds to its input instead of replacing it."
    ),
    Kind(
        "norm 2",
        "block",
        ("n", "D"),
        "x / sqrt(mean(x²) + eps) · g",
        "A second RMSNorm, with a scale of its own.",
        ("D",),
    ),
    Kind("gate", "block", ("n", "F"), "h Wgate", "SwiGLU: how far each of F features is opened.", ("D", "F")),
    Kind("up", "block", ("n", "F"), "h Wup", "SwiGLU: the features themselves.", ("D", "F")),
    Kind(
        "gated", "block", ("n", "F"), "silu(gate) · up", "silu(z) = z / (1 + exp(−z)); the product is number by number."
    ),
    Kind("down", "block", ("n", "D"), "gated Wdown", "Back to width D.", ("F", "D")),
    Kind("residual 2", "block", ("n", "D"), "x + down", "What the next block gets."),
    Kind(
        "final norm",
        "end",
        ("1", "D"),
        "x / sqrt(mean(x²) + eps) · g",
        "One more RMSNorm before the head, of the last position alone: only it predicts the next token.",
        ("D",),
    ),
    Kind("logits", "end", ("V",), "h Whead", "One number for every token of the vocabulary.", ("D", "V")),
    Kind(
        "probabilities",
        "choice",
        ("V",),
        "softmax(what the stages left)",
        "The distribution that the token is drawn from.",
    ),
    Kind("token", "choice", (), "draw, or the largest", "The next token's id."),
)
BY_NAME = {kind.name: kind for kind in KINDS}

# The sampling stages run only where a setting asks for them; their names are those of `kvlab.sampling.stages`.
SAMPLING = {
    "logit_bias": ("logits + bias", "A number of your choice is added to the logits of some tokens."),
    "repetition_penalty": (
        "positive / penalty, negative · penalty",
        "Tokens of prompt and answer get less likely, once each.",
    ),
    "frequency_presence_penalty": ("logits − count · f − present · p", "Tokens of the answer get less likely."),
    "processor": ("a function of your own", "Whatever the processor does to the logits."),
    "temperature": (
        "(logits − the largest) / T; T = 0 keeps the largest only",
        "Below 1 the distribution gets sharper, above 1 flatter.",
    ),
    "top_k": ("the k largest stay", "All others become −inf."),
    "top_p": ("the smallest set that reaches p stays", "The token that crosses p belongs to the set."),
    "min_p": ("p ≥ min_p · largest p stays", "Tokens far below the best one become −inf."),
}


def choice_kind(name: str) -> Kind:
    """The kind of a sampling stage, by its name in `kvlab.sampling.stages`."""
    formula, explanation = SAMPLING[name.partition(" ")[0]]  # a second processor is "processor 2"
    return Kind(f"sampling: {name}", "choice", ("V",), formula, explanation)
