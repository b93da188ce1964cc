"""The sampling lab: every stage between logits and token on a slider, over the live distribution of a real model."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from kvlab.front_end import prepare_page
from kvlab.generate import as_tensor, generate_cached, prompt_ids
from kvlab.model import Llama
from kvlab.sampling import ORDERS, SamplingSettings
from kvlab.show import Table
from kvlab.validate import whole
from kvlab.widgets.base import _WIDGET_VIEW, Controls, _in_notebook
from kvlab.widgets.sampling_view import bars_svg, lab_view, stage_table, token_table
from kvlab.widgets.start import start_amount, start_value
from kvlab.widgets.words import counted

QUESTION = "Which tokens can come next, how likely is each, and which stage has cut the others?"
PROMPT = "mom washed the"
DRAWS = (0, 100, 1_000, 10_000, 200_000)
N_TEXTS, N_NEW = 3, 24
RANGES = {"temperature": (0, 3), "top_p": (0.01, 1), "min_p": (0, 1), "penalty": (0.5, 3)}  # of the sliders
MOST_K = 60


@torch.no_grad()
def next_logits(model: Llama, prompt: str) -> tuple[list[int], torch.Tensor]:
    """The ids of a prompt, and the logits (vocab,) of the token after it, in float64 on the CPU."""
    if not isinstance(prompt, str):
        raise ValueError(f"the prompt must be a text, got {prompt!r:.60}")
    if not prompt.strip():
        raise ValueError("the prompt is empty: write at least one word")
    ids = prompt_ids(model, prompt, 1)
    return ids, model(as_tensor(model, ids), last_only=True)[-1].cpu().double()


def continuations(
    model: Llama, prompt: str, settings: SamplingSettings, n_texts: int = N_TEXTS, n_new: int = N_NEW
) -> list[str]:
    """`n_texts` continuations of `n_new` tokens, drawn with seeds 0, 1, 2 and so on, and otherwise these settings."""
    seeds = range(whole("n_texts", n_texts, least=1))
    return [generate_cached(model, prompt, n_new, replace(settings, seed=seed)).text for seed in seeds]


def library_table() -> Table:
    """Which library runs the stages in which order; the sources are in `kvlab.sampling.sampler`."""
    rows = tuple((name, ", ".join(order)) for name, order in ORDERS.items())
    return Table("Orders of the stages", ("library", "temperature and filters, in turn"), rows, folded=True, width=50)


class SamplingLab:
    """A shown lab. It needs no front end: set `controls[name].value`, press with `reveal()` and `write()`, and read
    `values` (of `lab_view`), `svg`, `table`, `message` and `texts`.

    A text or a setting that does not work is answered by a sentence, and the last good picture stays.
    """

    def __init__(self, model: Llama, **settings: Any) -> None:
        self.model = model
        self.question = QUESTION
        self.message = ""
        self.texts: list[str] = []
        self.hidden = False
        self.controls: Controls = {}
        self.panel: Any = None
        self._settings = settings
        self._prompt = ""
        self._ids: list[int] = []
        self._logits = torch.empty(0)
        self._labels = [_label(model, token) for token in range(model.config.vocab_size)]
        self._compute()
        try:
            self._build()
        except ImportError:
            self.controls, self.panel = {}, None

    # What is shown

    @property
    def svg(self) -> str:
        return bars_svg(self.values, self.hidden)

    @property
    def table(self) -> str:
        """The tokens and the stages as text."""
        return f"{token_table(self.values).to_text()}\n\n{stage_table(self.values).to_text()}"

    @property
    def text(self) -> str:
        """What stays without a front end."""
        return f"{self.question}\n\nafter {self._prompt!r}\n\n{self.table}"

    @property
    def html(self) -> str:
        """Question, bars and tables, without a script."""
        return f"<p><b>{html.escape(self.question)}</b></p>{self._figure_html()}{library_table().to_html()}"

    def show(self) -> SamplingLab:
        if not _in_notebook():
            print(self.text)
            return self
        from IPython.display import display

        bundle: dict[str, Any] = {"text/plain": self.text, "text/html": self.html}
        if self.panel is not None:
            bundle[_WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
        display(bundle, raw=True)
        if self.panel is not None:
            prepare_page()
        return self

    def _ipython_display_(self) -> None:
        """Nothing: `show` has shown it already, and it may stand on the last line of a cell."""

    # What the controls do

    def refresh(self, name: str) -> None:
        """Compute for the current controls; `name` is the one that has changed."""
        self._say("Computing …")
        before = dict(self._settings)
        self._settings = {key: control.value for key, control in self.controls.items()}
        try:
            self._compute()
            if name != "draws":
                self.hidden = bool(self._settings["predict"])
            self._say("Predict how many tokens are left, then press Reveal." if self.hidden else "")
        except ValueError as error:
            self._settings = before
            self._say(f"This does not work: {error}. The picture still shows the setting before.")
        self._figure.value = self._figure_html()

    def reveal(self) -> None:
        """Show what is hidden, and compare it with the prediction."""
        if self.hidden:
            self.hidden = False
            guess, left = int(self.controls["guess"].value), self.values["left"]
            self._say(f"{'Yes' if guess == left else 'No'}: you said {guess}, and {left} are left.")
            self._figure.value = self._figure_html()
        else:
            self._say("Nothing is hidden: tick Predict first, then move a slider.")

    def write(self) -> None:
        """Continue the prompt a few times with the current settings."""
        self._say("Writing …")
        try:
            self.texts = continuations(self.model, self._prompt, self._chosen())
            self._say("")
        except ValueError as error:
            self._say(f"This does not work: {error}.")
            return
        if self.panel is None:
            return
        items = "".join(f"<li>{html.escape(self._prompt)}<b>{html.escape(text)}</b></li>" for text in self.texts)
        self._written.value = f"<ol>{items}</ol>"

    def _compute(self) -> None:
        """`values` for the settings; a new prompt is pushed through the model first. Nothing changes on an error."""
        prompt = self._settings["prompt"]
        if prompt != self._prompt or not self._ids:  # no ids: nothing has been computed yet
            ids, logits = next_logits(self.model, prompt)
        else:
            ids, logits = self._ids, self._logits
        view = lab_view(logits, self._chosen(), ids, self._labels, self._settings["draws"])
        self.values: dict[str, Any] = view
        self._prompt, self._ids, self._logits = prompt, ids, logits

    def _chosen(self) -> SamplingSettings:
        wanted = self._settings
        return SamplingSettings(
            temperature=wanted["temperature"],
            top_k=wanted["top_k"] or None,
            top_p=wanted["top_p"],
            min_p=wanted["min_p"],
            repetition_penalty=wanted["penalty"],
            order=wanted["order"],
        )

    def _figure_html(self) -> str:
        view = self.values
        if self.hidden:
            return f"{self.svg}<p>entropy before {view['entropy_before']:.3f} nats</p>"
        line = (
            f"<p>{counted(view['left'], 'token')} left; entropy before {view['entropy_before']:.3f} nats, "
            f"after {view['entropy_after']:.3f}</p>"
        )
        return f"{self.svg}{line}{stage_table(view).to_html()}"

    def _say(self, message: str) -> None:
        self.message = message
        if self.panel is not None:
            self._status.value = html.escape(message)

    def _build(self) -> None:
        import ipywidgets

        def slider(name: str, label: str, step: float) -> Any:
            low, high = RANGES[name]
            return ipywidgets.FloatSlider(
                value=self._settings[name], min=low, max=high, step=step, description=label, readout_format=".2f"
            )

        wide = ipywidgets.Layout(width="90%")
        self.controls = {
            "prompt": ipywidgets.Text(value=self._prompt, description="Prompt", continuous_update=False, layout=wide),
            "temperature": slider("temperature", "Temperature", 0.05),
            "top_k": ipywidgets.IntSlider(value=self._settings["top_k"], min=0, max=MOST_K, description="Top-k"),
            "top_p": slider("top_p", "Top-p", 0.01),
            "min_p": slider("min_p", "Min-p", 0.01),
            "penalty": slider("penalty", "Penalty", 0.05),
            "order": ipywidgets.Dropdown(options=list(ORDERS), value=self._settings["order"], description="Order"),
            "draws": ipywidgets.Dropdown(options=DRAWS, value=self._settings["draws"], description="Draws"),
            "predict": ipywidgets.Checkbox(value=False, description="Predict first"),
            "guess": ipywidgets.BoundedIntText(value=1, min=1, max=len(self._labels), description="Tokens left"),
        }
        self.buttons = {
            "reveal": ipywidgets.Button(description="Reveal", tooltip="Compare the prediction with what is left"),
            "write": ipywidgets.Button(description="Continue", tooltip="Write a few continuations with these settings"),
        }
        self._status = ipywidgets.HTML("")
        self._figure = ipywidgets.HTML(self._figure_html())
        self._written = ipywidgets.HTML("")
        for name, control in self.controls.items():
            control.style.description_width = "90px"  # "Temperature" does not fit into the usual width
            if name != "guess":
                control.observe(self._observer(name), names="value")
        self.buttons["reveal"].on_click(lambda _: self.reveal())
        self.buttons["write"].on_click(lambda _: self.write())
        self.panel = ipywidgets.VBox(
            [
                ipywidgets.HTML(f"<b>{html.escape(self.question)}</b> (top-k 0 keeps all tokens)"),
                *self.controls.values(),
                ipywidgets.HBox(list(self.buttons.values())),
                self._status,
                self._figure,
                self._written,
                ipywidgets.HTML(library_table().to_html()),
            ]
        )

    def _observer(self, name: str) -> Callable[[Any], None]:
        return lambda _: self.refresh(name)


def sampling_lab(
    model: Llama,
    prompt: str = PROMPT,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    penalty: float = 1.0,
    order: str = "transformers",
    draws: int = 0,
) -> SamplingLab:
    """Show the lab; the arguments are the settings to start with. top_k = 0 keeps all tokens.

    Raises ValueError for settings that the sliders cannot show.
    """
    if getattr(model, "tokenizer", None) is None:
        raise ValueError("this model has no tokenizer, so the lab cannot take a text: load one that has")
    if draws not in DRAWS:
        raise ValueError(f"draws must be one of {', '.join(map(str, DRAWS))}, got {draws}")
    if not isinstance(order, str):
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, got {order!r:.60}")
    return SamplingLab(
        model,
        prompt=prompt,
        temperature=start_amount("temperature", temperature, *RANGES["temperature"]),
        top_k=start_value("top_k", top_k, 0, MOST_K),
        top_p=start_amount("top_p", top_p, *RANGES["top_p"]),
        min_p=start_amount("min_p", min_p, *RANGES["min_p"]),
        penalty=start_amount("penalty", penalty, *RANGES["penalty"]),
        order=order,
        draws=draws,
        predict=False,
    ).show()


def _label(model: Llama, token: int) -> str:
    assert model.tokenizer is not None
    return repr(model.tokenizer.decode([token], special=True))
