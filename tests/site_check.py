"""A built site, and what must hold of it without a browser: links, anchors, pictures, other hosts."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup, Tag

from helpers import ROOT, require

UNITS = {"short": ("00", "07"), "all": ()}
"""The notebooks of the short form, the one without exercises and the quickest with some; of the long form all."""

_built: dict[str, Path] = {}
_LOADS = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
"""Elements that fetch something by themselves, and the attribute that says what. A plain link waits for a click."""


@dataclass(frozen=True)
class Page:
    """One page: its place below the site's folder, and its parsed HTML."""

    name: str
    soup: BeautifulSoup

    @property
    def text(self) -> str:
        """All words on the page, with single spaces."""
        return " ".join(self.soup.get_text(" ").split())


def built(form: str, factory: pytest.TempPathFactory) -> Path:
    """The folder of a site that `python docs/site --fast` made: once for a whole run of the tests."""
    for tool in ("sphinx", "myst_nb", "pydata_sphinx_theme"):
        require(tool)
    if form not in _built:
        output = factory.mktemp("site") / "site"
        chosen = ["--units", *UNITS[form]] if UNITS[form] else []
        command = [sys.executable, "docs/site", "--fast", "--output", str(output), *chosen]
        env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        result = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=1400)
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""  # Sphinx writes its warnings there
        _built[form] = output
    return _built[form]


def read(site: Path) -> dict[str, Page]:
    """All pages of a site by name, such as notebooks/01_kv_cache.html."""
    names = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    return {name: Page(name, BeautifulSoup((site / name).read_text(encoding="utf-8"), "html.parser")) for name in names}


def broken_links(site: Path, pages: dict[str, Page]) -> list[str]:
    """`page -> target` for each link, script, style or picture below the site whose file or anchor is missing."""
    anchors = {name: _anchors(page.soup) for name, page in pages.items()}
    broken = []
    for name, page in pages.items():
        for target in _targets(page.soup):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            file = os.path.normpath(os.path.join(os.path.dirname(name), unquote(parts.path))) if parts.path else name
            if not (site / file).is_file():
                broken.append(f"{name} -> {target}: no such file")
            elif file in pages and parts.fragment and unquote(parts.fragment) not in anchors[file]:
                broken.append(f"{name} -> {target}: no such anchor")
    return sorted(set(broken))


def loads_from_elsewhere(pages: dict[str, Page]) -> list[str]:
    """`page: address` for each thing that a page would fetch from another host."""
    found = []
    for name, page in pages.items():
        for element in page.soup.find_all(list(_LOADS)):
            address = element.get(_LOADS[element.name])
            if isinstance(address, str) and urlsplit(address).netloc:
                found.append(f"{name}: {address}")
    return found


def undescribed_images(pages: dict[str, Page]) -> list[str]:
    """`page: picture` for each picture without alternative text."""
    images = [(name, image) for name, page in pages.items() for image in page.soup.find_all("img")]
    return [
        f"{name}: {str(image.get('src'))[:80]}" for name, image in images if not str(image.get("alt") or "").strip()
    ]


def _anchors(soup: BeautifulSoup) -> set[str]:
    return {str(element.get(key)) for key in ("id", "name") for element in soup.find_all(attrs={key: True})}


def _targets(soup: BeautifulSoup) -> list[str]:
    found = []
    for element in soup.find_all(["a", *_LOADS]):
        assert isinstance(element, Tag)
        value = element.get("href") or element.get("src")
        if isinstance(value, str) and not value.startswith(("data:", "javascript:")):
            found.append(value)
    return found
