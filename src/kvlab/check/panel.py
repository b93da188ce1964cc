"""The panel that shows where an exercise stands: HTML where it can be shown, the same words as text elsewhere.

No widget and no script, so it works in JupyterLab, on Colab, under papermill and on a printed page. State is told by
a word and a sign; the colour (from the Okabe–Ito set, safe for colour-blind readers) only repeats it.
"""

from __future__ import annotations

import html
import sys
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class State(Enum):
    """Where an exercise stands: sign, words, colour."""

    NOT_ATTEMPTED = ("○", "not attempted yet", "#7F7F7F")
    WRONG = ("✗", "not right yet", "#D55E00")
    RIGHT = ("✓", "right", "#0072B2")
    STALE = ("△", "your newest version was not checked", "#E69F00")


@dataclass(frozen=True)
class Panel:
    """A verdict and what explains it: (label, text) rows; a row without a label is a sentence of its own."""

    name: str
    state: State
    rows: list[tuple[str, str]] = field(default_factory=list)

    @property
    def text(self) -> str:
        sign, words, _ = self.state.value
        lines = [f"{sign} {self.name}: {words}"]
        lines += [f"  {label + ': ' if label else ''}{text}" for label, text in self.rows]
        return "\n".join(lines)

    @property
    def html(self) -> str:
        sign, words, color = self.state.value
        rows = "".join(
            f'<div style="margin-top:4px;white-space:pre-wrap">{f"<b>{html.escape(label)}:</b> " if label else ""}'
            f"{html.escape(text)}</div>"
            for label, text in self.rows
        )
        # `color` is left to the theme, so the text is readable on light and dark pages.
        return (
            f'<div role="status" style="border-left:6px solid {color};padding:6px 12px;margin:4px 0">'
            f"<b>{sign} {html.escape(self.name)}: {words}</b>{rows}</div>"
        )

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": self.text, "text/html": self.html}

    def show(self, metadata: dict[str, Any] | None = None) -> None:
        """Display in a notebook, print elsewhere. Never an `execute_result`: nbgrader would read that as a mark.

        metadata: kept with the output in the saved notebook, shown nowhere.
        """
        if "IPython" in sys.modules:
            from IPython.core.getipython import get_ipython

            if get_ipython() is not None:
                from IPython.display import display

                display(self, metadata=metadata)
                return
        print(self.text)
