"""What the browser test does in each notebook: the widgets with their controls, one exercise, and what must be seen."""

from dataclasses import dataclass

NEXT = "ArrowRight"  # of a slider
BELOW = "ArrowDown"  # of a menu
ABOVE = "ArrowUp"


@dataclass(frozen=True)
class Move:
    """A control by its label, the keys for it, and what it changes.

    keys: a key of Playwright ("ArrowRight"), or a text that replaces that of a text field (Enter is pressed after it).
    table: words in the table after the move, not there before it.
    figure: the picture must change. Where it need not, the table must.
    """

    control: str
    keys: str = NEXT
    table: str = ""
    figure: bool = True


@dataclass(frozen=True)
class Widget:
    """A widget, by the call that shows it, and the moves in order."""

    call: str
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Seat:
    """A notebook and what is done in it.

    exercise: answered in the browser with a wrong one of its known answers (files in grading/answers), then a right one.
    rule: what the panel says has to hold, when the answer is wrong.
    quiz: the unit of the quiz, where the notebook is a copy with another name.
    """

    notebook: str
    widgets: tuple[Widget, ...]
    exercise: str
    wrong: str
    rule: str
    quiz: str = ""

    @property
    def name(self) -> str:
        return f"{self.notebook}.ipynb"

    @property
    def unit(self) -> str:
        """The unit whose quiz stands there."""
        return self.quiz or self.notebook


SEATS = (
    Seat(
        "01_kv_cache",
        (
            Widget(
                "widgets.cache_stepper(",
                (
                    Move("Step", NEXT, "2 of 13 (decode: one token)"),
                    Move("Layer", BELOW),
                    Move("KV head", BELOW),
                    Move("Text", "the bank"),
                ),
            ),
            Widget("widgets.break_it(", (Move("Fault", BELOW, "last_prompt_token_twice: after prefill"),)),
            Widget(
                "widgets.kv_calculator(",
                (
                    Move("Tokens", NEXT, "16,384"),
                    Move("Batch", NEXT, "4.295 GB = 4 GiB"),
                    Move("Bits", BELOW, "KV cache at 8 bits"),
                    Move("KV heads", BELOW, "8.59 GB = 8 GiB"),
                    Move("Model", BELOW, "Llama 3.1 70B"),
                ),
            ),
        ),
        "positions_processed",
        "wrong_last_token_fed_back",
        "the last token is chosen but never fed back",
    ),
    Seat(
        "02_prefill_decode",
        (
            Widget(
                "widgets.roofline_explorer(",
                (
                    Move("GPU", BELOW, "on NVIDIA H100 SXM"),
                    Move("Prompt"),
                    Move("Batch", NEXT, "weights and 32 caches"),
                    Move("Context", NEXT, "caches of 2,048 tokens"),
                    Move("Model", BELOW, "Llama 3.1 8B on"),
                ),
            ),
            Widget(
                "widgets.scheduler_timeline(",
                (
                    Move("max_seqs", NEXT, "max_seqs 5"),
                    Move("Budget", NEXT, "token budget 17"),
                    Move("Policy", ABOVE, "continuous, max_seqs 5"),
                ),
            ),
        ),
        "latency_metrics",
        "wrong_ttft_on_the_clock",
        "begins at the request, not at 0",
    ),
    Seat(
        "03_memory",
        (
            Widget("widgets.paged_pool(", (Move("Step", NEXT, "A gets 8 more tokens"), Move("Block", BELOW))),
            Widget(
                "widgets.page_waste(", (Move("Mean length", NEXT, "1.47%", figure=False), Move("Block", NEXT, "3.13%"))
            ),
            Widget("widgets.break_pages(", (Move("Fault", BELOW, "block_not_copied: copy-on-write"),)),
            Widget(
                "widgets.window_mask(",
                (
                    Move("Tokens", NEXT, "12, 9, 10, 11"),
                    Move("New"),
                    Move("Window", NEXT, "Window of 5"),
                    Move("Layers", "ArrowLeft", "reach of 7 layers", figure=False),
                ),
            ),
        ),
        "sliding_window_mask",
        "wrong_one_more",
        "the 2 before it, in every row",
    ),
    Seat(
        "04_prompt_caching",
        (
            Widget(
                "widgets.break_even(",
                (
                    Move("TTL", BELOW, "entries of 1h"),
                    Move("Prefix", NEXT, "2,100 tokens"),
                    Move("New"),
                    Move("Answer"),
                    Move("Model", BELOW),
                ),
            ),
            Widget(
                "widgets.prompt_cache(",
                (
                    Move("Pause (s)", NEXT, "after 80 s", figure=False),
                    Move("stands", BELOW),
                    Move("Line", "Answer in one word."),
                ),
            ),
            Widget("widgets.break_prefix(", (Move("Fault", BELOW, "salt_forgotten: customers"),)),
        ),
        "request_cost",
        "wrong_reads_free",
        "cost cache_read",
    ),
    Seat(
        "05_sampling",
        (
            Widget(
                "widgets.sampling_lab(",
                (
                    Move("Temperature"),
                    Move("Top-k", NEXT),
                    Move("Top-k", "ArrowLeft"),
                    Move("Min-p", NEXT, figure=False),
                    Move("Draws", ABOVE),
                    Move("Prompt", "the bank"),
                    Move("Predict first", "Space", "Predict how many tokens are left"),
                ),
            ),
            Widget("widgets.break_sampling(", (Move("Fault", BELOW, "top_k_one_short: top-k keeps"),)),
            Widget("widgets.beam_tree(", (Move("Beams", "ArrowLeft"), Move("Tokens", "ArrowLeft", "in 5 passes"))),
        ),
        "top_p_filter",
        "wrong_crossing_dropped",
        "the token that crosses p belongs to the set",
    ),
    Seat(
        "06_optimizations",
        (
            Widget("widgets.break_draft(", (Move("Fault", BELOW, "target_cache_kept: the target"),)),
            Widget(
                "widgets.draft_length(",
                (
                    Move("Acceptance", NEXT, "2.14"),
                    Move("Draft step"),
                    Move("Extra token", NEXT, "1.24"),
                    Move("K", NEXT, "1.30"),
                ),
            ),
            Widget("widgets.bits(", (Move("Bits", NEXT, "5 bits, from -15 to 15"), Move("Group", ABOVE))),
            Widget("widgets.tiles(", (Move("Positions", NEXT, "16,384"), Move("Tile", NEXT, "128 x 128"))),
        ),
        "expected_tokens",
        "wrong_bonus_forgotten",
        "2 tokens in half of the rounds",
    ),
    Seat(
        "07_embeddings",
        (
            Widget(
                "widgets.layer_projection(", (Move("Layer", "ArrowLeft", "Layer 7"), Move("Yours", "The bank is open."))
            ),
            Widget("widgets.break_vectors(", (Move("Fault", BELOW, "padding_pooled: a text's mean"),)),
        ),
        "mean_pool",
        "wrong_mask_ignored",
        "2 of 5 places are tokens",
    ),
    Seat(
        "08_end_to_end",
        (
            Widget(
                "widgets.trace_stepper(",
                (Move("Head", BELOW), Move("Step", NEXT, "15 of "), Move("Block", BELOW, "block 1")),
            ),
            Widget("widgets.break_trace(", (Move("Fault", BELOW, "residual_left_out: one block"),)),
            Widget(
                "widgets.capacity_planner(",
                (
                    Move("GPU", BELOW, "on NVIDIA H100 SXM"),
                    Move("Prompt", NEXT, "2,048 tokens in"),
                    Move("New tokens", NEXT, "512 out"),
                    Move("Requests"),
                    Move("Bits", BELOW, "weights at 8 bits"),
                    Move("Model", BELOW, "Llama 3.1 8B on"),
                ),
            ),
        ),
        "rms_norm",
        "wrong_no_root",
        "the mean of the squares is 9, its root 3: divide by 3",
    ),
)
