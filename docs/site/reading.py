"""An executed notebook made into a page to read: still pictures for widgets, alt text, folded checks, links.

Nothing here runs a notebook or knows the builder; `page` takes and gives nbformat as plain dicts.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import html
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Notebook = dict[str, Any]
Cell = dict[str, Any]

FIGURES = "figures"
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_CARD = re.compile(r"^## Card (\d+) · (.+)$", re.M)
_DATA_IMAGE = re.compile(r'<img alt="([^"]*)"[^>]* src="data:image/png;base64,([^"]+)">')
_REMOTE_IMAGE = re.compile(r"!\[([^\]]*)\]\(https?://[^)]*\)")
_FIGURE_TEXT = re.compile(r"^\*The figure:\s*(.+?)\*\s*$", re.M | re.S)
_BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
_OWN_MACHINE = re.compile(r"^(?:doctor|progress)\.show\(", re.M)  # what these calls print belongs to whoever runs them
_QUIZ = re.compile(r"<details><summary>The same quiz without scripts</summary>(.*)</details>", re.S)


def text(cell: Cell) -> str:
    """A cell's source; nbformat stores it as a string or as a list of lines."""
    return "".join(cell["source"])


def cards(notebook: Notebook) -> dict[int, str]:
    """Number and title of the cards that a notebook's headings name."""
    found = (_CARD.findall(text(cell)) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return {int(number): title for pairs in found for number, title in pairs}


def terms(notebook: Notebook) -> list[str]:
    """The words that a notebook explains at its end: the arguments of its calls of `glossary.show`."""
    found: list[str] = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code" or "glossary.show(" not in text(cell):
            continue
        for node in ast.walk(ast.parse(text(cell))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "glossary.show" and node.args:
                found += [word for word in ast.literal_eval(node.args[0]) if word not in found]
    return found


def anchor(term: str) -> str:
    """The glossary's anchor of a term, such as `term-kv-cache`."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def page(notebook: Notebook, note: str, glossary: Mapping[str, str], folder: Path) -> Notebook:
    """The notebook as a page. Its pictures are written to `folder`/figures.

    note: Markdown that goes below the title. glossary: lower-case words and plurals to the term that explains them.
    Raises ValueError for a picture that nothing describes.
    """
    cells = [cell for cell in notebook["cells"] if "injected-parameters" not in _tags(cell)]
    linked: set[str] = set()
    out: list[Cell] = []
    for number, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            out.append(cell | {"source": _markdown(text(cell), glossary, linked)})
            if number == 0:
                out.append({"cell_type": "markdown", "id": "about-this-page", "metadata": {}, "source": note})
        elif cell["cell_type"] == "code":
            out.append(_code(cell, _described(cells[number + 1 :]), glossary, folder))
    _fold_bootstrap(out)
    metadata = {key: value for key, value in notebook["metadata"].items() if key not in ("widgets", "papermill")}
    return notebook | {"cells": out, "metadata": metadata}


def _tags(cell: Cell) -> list[str]:
    return list(cell["metadata"].get("tags", []))


def _markdown(source: str, glossary: Mapping[str, str], linked: set[str]) -> str:
    """Without pictures from other hosts; cards get an anchor, and the first bold use of a term leads to the glossary."""

    def link(match: re.Match[str]) -> str:
        term = glossary.get(match[1].strip().lower())
        if term is None or term in linked:
            return match[0]
        linked.add(term)
        return f"**[{match[1]}](project:#{anchor(term)})**"

    source = _REMOTE_IMAGE.sub(r"\1", source)
    parts = re.split(r"(^```.*?^```|^#[^\n]*$)", source, flags=re.M | re.S)
    source = "".join(part if odd else _BOLD.sub(link, part) for part, odd in _alternate(parts))
    return _CARD.sub(r"(lesson-card-\1)=\n\g<0>", source)


def _alternate(parts: list[str]) -> Iterator[tuple[str, bool]]:
    """What re.split gave, with whether it is one of the separators (code fences and headings)."""
    for number, part in enumerate(parts):
        yield part, number % 2 == 1


def _described(following: list[Cell]) -> str | None:
    """The text of "*The figure: …*" in the next Markdown cell: what a picture without its own words shows."""
    for cell in following:
        if cell["cell_type"] == "markdown":
            match = _FIGURE_TEXT.search(text(cell))
            return " ".join(re.sub(r"[*`]", "", match[1]).split()) if match else None
    return None


def _code(cell: Cell, described: str | None, glossary: Mapping[str, str], folder: Path) -> Cell:
    metadata = dict(cell["metadata"])
    grader = metadata.get("nbgrader", {})
    outputs = [out for out in cell["outputs"] if not _is_script(out)]
    if _OWN_MACHINE.search(text(cell)):
        body = "<p><em>What stands here depends on your machine: run the notebook to see it.</em></p>"
        outputs = [{"output_type": "display_data", "metadata": {}, "data": {"text/html": body}}]
    if grader.get("grade"):
        # A verdict on an answer that nobody has written yet says nothing; the check itself is worth reading.
        name = str(grader["grade_id"]).removeprefix("check-")
        metadata |= {"tags": [*_tags(cell), "hide-input"], "mystnb": _prompts(f"The check of {name}")}
        outputs = []
    return cell | {"metadata": metadata, "outputs": [_output(out, described, glossary, folder) for out in outputs]}


def _fold_bootstrap(cells: list[Cell]) -> None:
    """The first code cell prepares the session; nobody reads it for its own sake."""
    for cell in cells:
        if cell["cell_type"] == "code":
            if "parameters" not in _tags(cell):
                cell["metadata"] |= {"tags": [*_tags(cell), "hide-input"], "mystnb": _prompts("Preparation")}
            return


def _prompts(what: str) -> dict[str, str]:
    return {"code_prompt_show": what, "code_prompt_hide": what}


def _is_script(out: dict[str, Any]) -> bool:
    """The clickable quiz: a script, and the empty element that it fills. The quiz as fold-outs stands beside it."""
    data = out.get("data", {})
    return "application/javascript" in data or "data-shufflequestions" in "".join(data.get("text/html", ""))


def _output(out: dict[str, Any], described: str | None, glossary: Mapping[str, str], folder: Path) -> dict[str, Any]:
    data = out.get("data", {})
    if "text/html" in data:
        body = _html("".join(data["text/html"]), described, glossary, folder)
        if _WIDGET_VIEW in data and "<img " in body:
            body = f'<div class="still">{body}<p class="still-note">A still picture of a widget.</p></div>'
    elif "image/png" in data:
        body = _figure("".join(data["image/png"]), html.escape(described or ""), folder)
    else:
        return out
    plain = data.get("text/plain", "")
    return {"output_type": "display_data", "metadata": {}, "data": {"text/html": body, "text/plain": plain}}


def _html(body: str, described: str | None, glossary: Mapping[str, str], folder: Path) -> str:
    body = _DATA_IMAGE.sub(lambda match: _figure(match[2], match[1] or html.escape(described or ""), folder), body)
    body = _QUIZ.sub(r'<div class="quiz">\1</div>', body)
    claims = re.search(r"<summary>What is said and what we computed \(card (\d+)", body)
    if claims:
        more = f'<p><a href="../claims.html#card-{claims[1]}">Card {claims[1]} in the register of claims</a></p>'
        body = body.removesuffix("</details>") + more + "</details>"
    if '<th scope="col" style="text-align:left">term</th>' in body:
        body = re.sub(r"(<tr><td[^>]*>)([^<]+)(</td>)", lambda match: _term_cell(match, glossary), body)
    return body


def _term_cell(match: re.Match[str], glossary: Mapping[str, str]) -> str:
    term = glossary.get(html.unescape(match[2]).lower())
    if term is None:
        return match[0]
    return f'{match[1]}<a href="../glossary.html#{anchor(term)}">{match[2]}</a>{match[3]}'


def _figure(encoded: str, alt: str, folder: Path) -> str:
    """Write a PNG, named by its content, and give the HTML that shows it. `alt` is escaped already."""
    if not alt:
        raise ValueError('a picture has no description: write "*The figure: …*" in the text below its cell')
    picture = base64.b64decode(encoded)
    name = f"{hashlib.sha256(picture).hexdigest()[:16]}.png"
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    (folder / FIGURES / name).write_bytes(picture)
    width, height = struct.unpack(">II", picture[16:24])  # of the header chunk, which comes first
    size = f'width="{width}" height="{height}"'
    return f'<img class="figure" alt="{alt}" src="../{FIGURES}/{name}" {size} loading="lazy">'
