"""The site of `make site`: nothing is missing in it, nothing is in it that should not be, and it needs no network."""

import re
from pathlib import Path
from typing import Any

import pytest

import site_check
from helpers import ROOT, code_cell, write_notebook
from kvlab import claims, glossary

SOLUTION = re.compile(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", re.S)


@pytest.fixture(scope="module", params=["short", pytest.param("all", marks=pytest.mark.full)])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of two notebooks, and in the long form of all; both with FAST. It fails on any warning of Sphinx."""
    return site_check.built(request.param, tmp_path_factory)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, site_check.Page]:
    return site_check.read(site)


slow = pytest.mark.slow
long = pytest.mark.timeout(1500)  # the first test of each form executes the notebooks


@slow
@long
def test_no_link_is_broken(site: Path, pages: dict[str, site_check.Page]) -> None:
    assert site_check.broken_links(site, pages) == []


@slow
@long
def test_no_page_loads_anything_from_another_host(pages: dict[str, site_check.Page]) -> None:
    assert site_check.loads_from_elsewhere(pages) == []


@slow
@long
def test_every_picture_is_described(pages: dict[str, site_check.Page]) -> None:
    assert site_check.undescribed_images(pages) == []
    figures = [image for page in pages.values() for image in page.soup.select("img.figure")]
    assert len(figures) >= 5


@slow
@long
def test_no_page_holds_a_solution(pages: dict[str, site_check.Page]) -> None:
    if not (ROOT / "grading" / "units").is_dir():
        pytest.skip("grading/ is absent here, and with it the solutions to look for")
    shown = {name: re.sub(r"\s+", "", page.soup.get_text()) for name, page in pages.items()}
    solutions = [
        (unit.stem, re.sub(r"\s+", "", block))
        for unit in sorted((ROOT / "grading" / "units").glob("*.py"))
        for block in SOLUTION.findall(unit.read_text(encoding="utf-8"))
    ]
    assert len(solutions) > 50
    found = [
        (unit, name) for unit, block in solutions if len(block) > 40 for name, text in shown.items() if block in text
    ]
    assert found == []
    assert [name for name, text in shown.items() if name.startswith("notebooks/") and "BEGINSOLUTION" in text] == []


@slow
@long
def test_no_page_names_a_folder_of_this_machine(site: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for pattern in ("*.html", "*.js") for path in site.rglob(pattern)}
    private = (str(ROOT), f"{Path.home()}/", str(site.parent))
    assert [(path.name, name) for path, text in texts.items() for name in private if name in text] == []


@slow
@long
def test_the_glossary_is_complete_and_the_notebooks_lead_to_it(pages: dict[str, site_check.Page]) -> None:
    page = pages["glossary.html"]
    assert [heading.contents[0] for heading in page.soup.select("h3")] == glossary.terms()
    assert [term for term in glossary.terms() if " ".join(glossary.explain(term).split()) not in page.text] == []
    notebook = pages["notebooks/07_embeddings.html"]
    assert len(notebook.soup.select('a[href^="../glossary.html#term-"]')) >= 10
    assert page.soup.select_one('a[href="notebooks/07_embeddings.html"]') is not None


@slow
@long
def test_the_register_shows_every_claim_with_its_source(pages: dict[str, site_check.Page]) -> None:
    shown = pages["claims.html"].soup.select(".claim")
    texts = {str(item["id"]): " ".join(item.get_text(" ").split()) for item in shown}
    assert len(texts) == len(claims.rows())
    for row in claims.rows():
        text = texts["claim-" + row["id"].replace(".", "-").lower()]
        for part in (row["claim"], row["verdict"], row["note"], row["source"]):
            assert " ".join(part.split()) in text, row["id"]
    assert pages["notebooks/07_embeddings.html"].soup.select_one('a[href="../claims.html#card-21"]') is not None


@slow
@long
def test_a_notebook_page_has_hints_and_quiz_without_scripts(pages: dict[str, site_check.Page]) -> None:
    soup = pages["notebooks/07_embeddings.html"].soup
    hints = [item.get_text() for item in soup.select("details > summary") if item.get_text().startswith("Hint 1")]
    assert len(hints) == 4
    assert len(soup.select(".quiz > ol > li")) == 5
    assert not any("shufflequestions" in str(script) for script in soup.find_all("script"))
    assert ": not attempted yet" not in soup.get_text()  # the panels of the checks; the stubs say it in their own way


@slow
@long
def test_home_says_how_to_get_the_course(pages: dict[str, site_check.Page]) -> None:
    """The two lines of the README, and the same word for cards as in the course."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    clone = next(line for line in readme.splitlines() if line.startswith("git clone "))
    for name in ("index.html", "docs/learners.html"):
        text = pages[name].soup.get_text()
        assert clone in text and "make lab" in text
    assert "cards (topics) in all" in pages["index.html"].text


@slow
@long
def test_the_register_explains_its_verdicts(pages: dict[str, site_check.Page]) -> None:
    page = pages["claims.html"]
    for word, meaning in claims.MEANINGS.items():
        assert page.text.count(f"{word} : {meaning}") == 1, word


# What follows needs no built site.


def cell(kind: str, source: str, outputs: list[dict[str, Any]] | None = None, **metadata: Any) -> dict[str, Any]:
    made = {"cell_type": kind, "id": "x", "metadata": metadata, "source": source}
    return made | ({"outputs": outputs or [], "execution_count": None} if kind == "code" else {})


def notebook(*cells: dict[str, Any]) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    import reading

    return reading


@pytest.fixture
def site_pages(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    import pages

    return pages


def shown(reading: Any, folder: Path, *cells: dict[str, Any]) -> list[dict[str, Any]]:
    first = cell("markdown", "# 01 · A title")
    page = reading.page(notebook(first, *cells), "note", {"logits": "logits", "logit": "logits"}, folder)
    made: list[dict[str, Any]] = page["cells"]
    return made


def test_a_picture_takes_the_words_below_its_cell(reading: Any, tmp_path: Path) -> None:
    plot = cell("code", "plot()", [{"output_type": "execute_result", "data": {"image/png": PNG}, "metadata": {}}])
    made = shown(reading, tmp_path, plot, cell("markdown", "*The figure: two `bars` & a line.*\n\nMore."))
    (out,) = made[2]["outputs"]
    assert 'alt="two bars &amp; a line."' in out["data"]["text/html"]
    assert 'width="1" height="1"' in out["data"]["text/html"]
    assert len(list((tmp_path / "figures").glob("*.png"))) == 1


def test_a_picture_without_words_is_an_error(reading: Any, tmp_path: Path) -> None:
    plot = cell("code", "plot()", [{"output_type": "execute_result", "data": {"image/png": PNG}, "metadata": {}}])
    with pytest.raises(ValueError, match="no description"):
        shown(reading, tmp_path, plot, cell("markdown", "Nothing about it."))


def test_a_widget_becomes_its_picture_and_scripts_go(reading: Any, tmp_path: Path) -> None:
    html = f'<p>Why?</p><img alt="Bars." src="data:image/png;base64,{PNG}"><table></table>'
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/html": html, "image/png": PNG}
    script = {"application/javascript": "alert(1)", "text/plain": ""}
    outputs = [{"output_type": "display_data", "data": data, "metadata": {}} for data in (widget, script)]
    made = shown(reading, tmp_path, cell("code", "widgets.bars()", outputs))
    (out,) = made[2]["outputs"]
    assert set(out["data"]) == {"text/html", "text/plain"}
    assert 'src="../figures/' in out["data"]["text/html"] and "base64" not in out["data"]["text/html"]
    assert "A still picture" in out["data"]["text/html"]


def test_what_depends_on_the_machine_is_left_out(reading: Any, tmp_path: Path) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "work/ of somebody"}
    made = shown(reading, tmp_path, cell("code", "progress.show()", [output]))
    assert "somebody" not in str(made) and "depends on your machine" in str(made)


def test_the_first_use_of_a_term_leads_to_the_glossary(reading: Any, tmp_path: Path) -> None:
    text = "## About **logits**\n\n**Logits** and **logits**.\n\n```\n**logits**\n```"
    made = shown(reading, tmp_path, cell("markdown", text))
    assert made[2]["source"] == text.replace("**Logits**", "**[Logits](project:#term-logits)**")


def test_a_picture_of_another_host_becomes_its_words(reading: Any, tmp_path: Path) -> None:
    made = shown(reading, tmp_path, cell("markdown", "[![Open in Colab](https://x.org/badge.svg)](https://x.org/a)"))
    assert made[2]["source"] == "[Open in Colab](https://x.org/a)"


def test_links_of_documents_lead_to_pages_or_to_the_repository(site_pages: Any) -> None:
    from pathlib import PurePosixPath

    def convert(text: str) -> str:
        known = ["docs/grading.md", "docs/three-loops.png"]
        made: str = site_pages.document(text, PurePosixPath("docs/a.md"), ROOT, known, "https://x.org/r")
        return made

    assert convert("[a](grading.md#in-short) ![b](three-loops.png)") == "[a](grading.md#in-short) ![b](three-loops.png)"
    assert convert("[a](../README.md)") == "[a](../index.md)"
    assert convert("[a](../Makefile)") == "[a](https://x.org/r/blob/main/Makefile)"
    assert convert("`[a](nowhere.md)` [b](https://y.org) [c](#d)") == "`[a](nowhere.md)` [b](https://y.org) [c](#d)"
    with pytest.raises(ValueError, match=r"docs/a\.md has a link to nowhere\.md"):
        convert("[a](nowhere.md)")


def test_the_checker_notices_what_is_broken(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="top">A</h1><a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a>'
        '<a href="#top">4</a><a href="https://x.org">5</a><img src="p.png" alt=" "><script src="//cdn.x.org/a.js"></script>'
    )
    (tmp_path / "b.html").write_text('<p id="there">B</p>')
    (tmp_path / "p.png").write_bytes(b"")
    pages = site_check.read(tmp_path)
    assert site_check.broken_links(tmp_path, pages) == [
        "a.html -> b.html#gone: no such anchor",
        "a.html -> c.html: no such file",
    ]
    assert site_check.loads_from_elsewhere(pages) == ["a.html: //cdn.x.org/a.js"]
    assert site_check.undescribed_images(pages) == ["a.html: p.png"]


def test_a_result_is_used_again_until_the_notebook_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))
    import executed

    monkeypatch.setattr(executed, "build_dir", lambda: tmp_path / "build")
    monkeypatch.setattr(executed, "_common", lambda: b"the same package and data")
    source = write_notebook(tmp_path / "09_tiny.ipynb", [code_cell("a", "print(1 + 1)")])
    (first,) = executed.execute({"09_tiny": source}, fast=True).values()
    (again,) = executed.execute({"09_tiny": source}, fast=True).values()
    assert first == again and capsys.readouterr().out.count("executed in") == 1
    write_notebook(source, [code_cell("a", "print(2 + 2)")])
    (changed,) = executed.execute({"09_tiny": source}, fast=True).values()
    assert changed != first and not first.exists()
    write_notebook(source, [code_cell("a", "1 / 0")])
    with pytest.raises(RuntimeError, match=r"09_tiny: cell 1 .*ZeroDivisionError"):
        executed.execute({"09_tiny": source}, fast=True)
