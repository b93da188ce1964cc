"""What all widgets share: question, controls, busy mark, figure and table, and what stays without a front end."""

from __future__ import annotations

import html
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvlab.front_end import prepare_page
from kvlab.picture import as_base64, image_html
from kvlab.show import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Controls = dict[str, Any]
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


@dataclass(frozen=True)
class Result:
    """What a widget shows for one setting of its controls. `alt` says in words what the figure shows."""

    values: dict[str, Any]
    table: Table
    figure: Figure
    alt: str


class Explorer:
    """A shown widget. It needs no front end: set `controls[name].value`, then read `values`, `table` and `figure`.

    compute: called with the value of every control by name; a ValueError is shown as a sentence, and the last good
        figure stays.
    build: makes the controls, or raises ImportError where ipywidgets is missing (the default figure is shown then).
    prepare: called before computing with the name of the changed control, to adapt the other controls to it.
    adjust: called after computing with the values, for controls that depend on them.
    """

    def __init__(
        self,
        question: str,
        settings: Mapping[str, Any],
        compute: Callable[..., Result],
        build: Callable[[], Controls],
        prepare: Callable[[str, Controls], None] | None = None,
        adjust: Callable[[Controls, dict[str, Any]], None] | None = None,
    ) -> None:
        self.question = question
        self.message = ""
        self.controls: Controls = {}
        self.panel: Any = None
        self._compute, self._prepare, self._adjust = compute, prepare, adjust
        self._quiet = False
        self._result = compute(**settings)
        from kvlab.redraw import Redraw  # matplotlib is loaded by now

        self._redraw = Redraw()
        self._picture = self._redraw.png(self._result.figure)
        try:
            self.controls = build()
            self._build_panel()
        except ImportError:
            self.controls, self.panel = {}, None

    @property
    def values(self) -> dict[str, Any]:
        """The data of the figure: what the plain function returns for the current setting."""
        return self._result.values

    @property
    def table(self) -> str:
        """The same data as text."""
        return self._result.table.to_text()

    @property
    def figure(self) -> Figure:
        return self._result.figure

    @property
    def picture(self) -> bytes:
        """The figure as the PNG that is shown."""
        return self._picture

    @property
    def text(self) -> str:
        """The question and the table, for a screen without a front end."""
        return f"{self.question}\n\n{self.table}"

    @property
    def html(self) -> str:
        """The question, the figure and the table, without a script."""
        image = image_html(self.picture, self._result.alt)
        return f"<p><b>{html.escape(self.question)}</b></p>{image}{self._result.table.to_html()}"

    def _ipython_display_(self) -> None:
        """Nothing: `show` has shown it already, and it may stand on the last line of a cell."""

    def show(self) -> Explorer:
        """Show the controls where there is a front end; the default figure and table stay where there is none."""
        if not _in_notebook():
            print(self.text)
            return self
        from IPython.display import display

        bundle: dict[str, Any] = {
            "text/plain": self.text,
            "text/html": self.html,
            "image/png": as_base64(self.picture),
        }
        if self.panel is not None:
            bundle[_WIDGET_VIEW] = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
        display(bundle, raw=True)
        if self.panel is not None:
            prepare_page()
        return self

    def _build_panel(self) -> None:
        import ipywidgets

        self._busy = ipywidgets.HTML("")
        # Not ipywidgets.Image, which has no place for the text that a screen reader says.
        self._image = ipywidgets.HTML(image_html(self.picture, self._result.alt))
        self._table = ipywidgets.HTML(self._result.table.to_html())
        question = ipywidgets.HTML(f"<b>{html.escape(self.question)}</b>")
        self.panel = ipywidgets.VBox([question, *self.controls.values(), self._busy, self._image, self._table])
        if self._adjust is not None:
            self._adjust(self.controls, self.values)
        for name, control in self.controls.items():
            control.style.description_width = "100px"  # the usual width cuts "Mean length"
            control.observe(self._observer(name), names="value")

    def _observer(self, name: str) -> Callable[[Any], None]:
        return lambda _: self._refresh(name)

    def _refresh(self, name: str) -> None:
        """Compute for the current controls. Controls that are set meanwhile do not start another round."""
        if self._quiet:
            return
        self._quiet = True
        self._busy.value = "Computing …"
        self.message = ""
        try:
            if self._prepare is not None:
                self._prepare(name, self.controls)
            result = self._compute(**{key: control.value for key, control in self.controls.items()})
            picture = self._redraw.png(result.figure)
            if self._adjust is not None:
                self._adjust(self.controls, result.values)
            self._result, self._picture = result, picture
            self._image.value, self._table.value = image_html(picture, result.alt), result.table.to_html()
        except ValueError as error:
            self.message = f"This does not work: {error}. The figure still shows the setting before."
        finally:
            self._busy.value = html.escape(self.message)
            self._quiet = False


def plain(text: str) -> str:
    """Text for a label in a figure: no line break, and no "$", which would start a formula."""
    return text.replace("\n", "\\n").replace("$", r"\$")


def _in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython.core.getipython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None
