"""What a page asks for and complains about, written down while a test uses it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

# Complaints, word for word, that the front ends make without the course too: text and where it comes from.
KNOWN = {
    "uncaught: Cannot read properties of undefined (reading 'schema')": "Notebook 7.6, for any notebook: its own settings",
    "uncaught: Command 'filebrowser:open-path' not registered.": "Notebook 7.6 on a busy machine: a command of its own",
}


@dataclass
class Watch:
    """Requests to other machines, which are refused, and errors on the page's console."""

    elsewhere: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def follow(self, page: "Page") -> None:
        page.route("**/*", self._only_this_machine)
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))

    @property
    def ours(self) -> list[str]:
        """The errors that are not known ones."""
        return [text for text in self.errors if text not in KNOWN]

    def _only_this_machine(self, route: "Route") -> None:
        address = urlsplit(route.request.url)
        if address.scheme in ("data", "blob", "about") or address.hostname == "127.0.0.1":
            route.continue_()
        else:
            self.elsewhere.append(route.request.url)
            route.abort()
