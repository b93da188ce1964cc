"""The site in a browser: from files and from a server, light and dark, wide and narrow, without any other host."""

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import site_check
from helpers import require

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(1500)]

PAGES = ("index.html", "notebooks/07_embeddings.html", "glossary.html", "claims.html")

FEWER_OF_A_KIND = """() => {
    document.head.insertAdjacentHTML('beforeend', '<style>* { animation: none !important }</style>');
    document.querySelectorAll('details').forEach(part => part.open = true);
    [...document.querySelectorAll('.highlight pre')].slice(8).forEach(part => part.textContent = part.textContent);
    [...document.querySelectorAll('.claim')].slice(20).forEach(part => part.remove());
}"""
"""Opens all fold-outs at once (they fade in, and halfway there the contrast is low); of coloured code and of claims, thousands of elements of one make, some are left: axe is slow."""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test needs no log of requests."""


class Visit:
    """A page of the site in a window of its own, with what it asked for and complained about."""

    def __init__(self, browser: "Browser", address: str, theme: str = "light", width: int = 1280) -> None:
        self.address = address
        self.context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)  # type: ignore[arg-type]
        self.page: Page = self.context.new_page()
        self.elsewhere: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", self._note)
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(f"uncaught: {error}"))

    def open(self, name: str) -> "Page":
        self.page.goto(f"{self.address}/{name}", wait_until="load")
        return self.page

    def _note(self, request: "Request") -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.elsewhere.append(request.url)


@pytest.fixture(scope="module", params=["short", pytest.param("all", marks=pytest.mark.full)])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return site_check.built(request.param, tmp_path_factory)


@pytest.fixture(scope="module", params=["files", "server"])
def address(request: pytest.FixtureRequest, site: Path) -> Iterator[str]:
    """Where the site is: its folder, or a plain web server, as `python -m http.server` is."""
    if request.param == "files":
        yield f"file://{site}"
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)


@pytest.fixture
def visit(browser: "Browser", address: str) -> Iterator[Visit]:
    made = Visit(browser, address)
    yield made
    made.context.close()


def test_no_page_asks_another_host_or_complains(visit: Visit, site: Path) -> None:
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    assert set(PAGES) < set(names)
    for name in names:
        page = visit.open(name)
        page.evaluate("[...document.images].forEach(image => image.loading = 'eager')")  # also those out of sight
        page.wait_for_function("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        assert (name, visit.elsewhere, visit.errors) == (name, [], [])


def test_search_finds_a_term_and_its_notebook(visit: Visit) -> None:
    page = visit.open("search.html?q=cosine")
    page.wait_for_selector("#search-results li a")
    found = page.locator("#search-results li a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert any(link.startswith("glossary.html") for link in found), found
    assert any(link.startswith("notebooks/07_embeddings.html") for link in found), found
    assert (visit.elsewhere, visit.errors) == ([], [])


def test_search_works_from_the_keyboard(visit: Visit) -> None:
    page = visit.open("notebooks/07_embeddings.html")
    page.keyboard.press("Control+k")
    page.keyboard.type("bigram")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search.html?q=bigram*")
    page.wait_for_selector("#search-results p.search-summary, #search-results .search-summary")
    assert visit.errors == []


def test_the_theme_button_makes_pages_dark_and_light(visit: Visit) -> None:
    """The choice is kept on the next page, and figures keep the white ground that they are drawn for."""
    ground = "(part) => Math.min(...getComputedStyle(part).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number))"
    for mode, dark in (("dark", True), ("light", False)):
        page = visit.open("index.html")
        page.locator("button.theme-switch-button:visible").click()
        page.locator(f"button.theme-change-button[data-mode={mode}]:visible").click()
        page = visit.open("notebooks/07_embeddings.html")
        assert page.evaluate("document.documentElement.dataset.theme") == mode
        assert (page.locator("body").evaluate(ground) < 60) is dark
        assert page.locator("img.figure").first.evaluate(ground) == 255
    assert visit.errors == []


def test_the_register_is_filtered_by_words_notebook_and_verdict(visit: Visit) -> None:
    page = visit.open("claims.html")
    shown = page.locator(".claim:visible")
    every = shown.count()
    assert every == page.locator(".claim").count() > 200
    page.get_by_label("Verdict").select_option("wrong")
    wrong = shown.count()
    assert 0 < wrong < every and page.locator("output").inner_text() == f"{wrong} of {every} claims"
    page.get_by_label("Notebook").select_option("07")
    assert 0 < shown.count() < wrong
    page.get_by_label("Words").fill("no such words anywhere")
    assert shown.count() == 0 and page.locator(".bd-article h2:visible").count() == 0


def test_a_wide_table_says_that_it_goes_on(browser: "Browser", site: Path) -> None:
    """The map on a phone; on a wide screen nothing is said. Long names of functions stay inside a claim."""
    said = "part => getComputedStyle(part, '::before').content"
    for width, wide in ((390, True), (1280, False)):
        visit = Visit(browser, f"file://{site}", width=width)
        try:
            page = visit.open("notebooks/00_start.html")
            table = page.locator(".text_html").filter(has_text="The course").filter(has=page.locator("table")).first
            assert ("goes on to the right" in table.evaluate(said)) is wide
            heading = page.locator(".bd-links__title")
            if not wide:
                room = "part => part.closest('.bd-sidebar-primary').getBoundingClientRect().right"
                words = "part => { const r = document.createRange(); r.selectNodeContents(part); return r.getBoundingClientRect().right }"
                assert heading.evaluate(room) - heading.evaluate(words) > 8
            page = visit.open("claims.html")
            outside = """codes => codes.filter(code => code.getBoundingClientRect().right >
                code.closest('.claim').getBoundingClientRect().right).length"""
            assert page.locator(".claim code").evaluate_all(outside) == 0
        finally:
            visit.context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious_and_nothing_overflows(
    browser: "Browser", site: Path, theme: str, width: int
) -> None:
    require("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    visit = Visit(browser, f"file://{site}", theme, width)
    try:
        others = {path.relative_to(site).as_posix() for path in site.glob("notebooks/*.html")} - set(PAGES)
        for name in [*PAGES, *sorted(others)]:
            page = visit.open(name)
            page.evaluate(FEWER_OF_A_KIND)
            # "preload" would read style sheets, which a page opened from a file may not do.
            found = Axe().run(page, options={"preload": False, "resultTypes": ["violations"]}).response["violations"]
            serious = [
                (item["id"], item["nodes"][0]["html"]) for item in found if item["impact"] in ("serious", "critical")
            ]
            assert (name, serious) == (name, [])
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            outside = "links => links.filter(link => link.getBoundingClientRect().right > innerWidth).length"
            assert page.locator(".page-toc a:visible").evaluate_all(outside) == 0, name
    finally:
        visit.context.close()
