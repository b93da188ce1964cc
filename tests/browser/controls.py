"""ipywidgets' controls used by the keyboard, and what a widget then shows."""

import re
from typing import TYPE_CHECKING

from seats import Move

if TYPE_CHECKING:
    from playwright.sync_api import Locator

# The picture is an <img> or, in the sampling lab, an <svg>; the text is that of everything but the controls.
PICTURE = """box => Array.from(box.querySelectorAll('.widget-html img, .widget-html svg'),
    picture => picture.src || picture.outerHTML).join()"""
TEXT = "box => Array.from(box.querySelectorAll('.widget-html-content'), part => part.textContent).join('\\n')"


class Shown:
    """A widget on the page. `box` is its outermost element."""

    def __init__(self, cell: "Locator") -> None:
        self.box = cell.locator(".jp-OutputArea-output .widget-vbox").first

    @property
    def picture(self) -> str:
        return str(self.box.evaluate(PICTURE))

    @property
    def text(self) -> str:
        return str(self.box.evaluate(TEXT))

    def control(self, label: str) -> "Locator":
        """The control with this label."""
        name = self.box.page.locator("label", has_text=re.compile(f"^{re.escape(label)}$"))
        return self.box.locator(".widget-inline-hbox").filter(has=name)

    def press(self, move: Move) -> None:
        """Put the focus on the control and use the keys."""
        control = self.control(move.control)
        if control.locator(".noUi-handle").count():
            control.locator(".noUi-handle").press(move.keys)
        elif control.locator("select").count():
            control.locator("select").press(move.keys)
        elif control.locator("input[type=checkbox]").count():
            control.locator("input").press(move.keys)
        else:
            field = control.locator("input")
            field.fill(move.keys)
            field.press("Enter")

    def move(self, move: Move) -> None:
        """Use the keys and wait until what has to change has changed, and the widget is no longer busy."""
        before = [self.picture, self.text]
        assert not move.table or move.table not in before[1], f"{move}: the table says so before the move"
        self.press(move)
        if move.figure:
            self.wait(f"({PICTURE})(box) !== before", before[0], f"{move.control}: the figure did not change")
        if not move.figure:
            self.wait(f"({TEXT})(box) !== before", before[1], f"{move.control}: the table did not change")
        if move.table:
            self.wait(f"({TEXT})(box).includes(before)", move.table, f"{move.control}: the table does not say this")
        self.wait(f"!({TEXT})(box).includes(before)", "Computing …", f"{move.control}: still busy")
        assert "This does not work" not in self.text, f"{move}: {self.text}"

    def wait(self, condition: str, value: str, message: str) -> None:
        """Wait for a JavaScript condition over `box` and `before` (the value), looking again at every drawn frame."""
        from playwright.sync_api import TimeoutError

        try:
            self.box.page.wait_for_function(f"([box, before]) => {condition}", arg=[self.box.element_handle(), value])
        except TimeoutError:
            raise AssertionError(f"{message} ({value[:80]!r}); it says {self.text[:600]!r}") from None
