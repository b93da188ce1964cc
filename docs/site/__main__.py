"""Builds the course's site from executed notebooks, docs and data: `python docs/site [--fast] [--units 01 02]`.

The result, build/site, needs no network and no server: open build/site/index.html. A failed build leaves the old one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path, PurePosixPath

import executed
import pages
import reading

from kvlab.cli import units as released_units
from kvlab.cli.errors import CommandError
from kvlab.paths import build_dir

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("docs/*.md", "CONTRIBUTING.md", "CHANGELOG.md")
PICTURES = ("docs/*.png", "docs/*.gif", "docs/*.svg")


def main(argv: list[str] | None = None) -> int:
    """Command line; 1 when a notebook fails or Sphinx has anything to say against a page."""
    parser = argparse.ArgumentParser(prog="python docs/site", description="Build the course's site into build/site.")
    parser.add_argument("--fast", action="store_true", help="execute the notebooks with FAST=True")
    parser.add_argument("--units", nargs="*", default=[], metavar="UNIT", help="units such as 01 (default: all)")
    parser.add_argument("--output", type=Path, default=build_dir() / "site", help="default: build/site")
    options = parser.parse_args(argv)
    try:
        build(options.units, options.fast, options.output.resolve())
    except (CommandError, RuntimeError, ValueError) as error:
        print(f"The site was not built: {error}", file=sys.stderr)
        return 1
    print(f"The site is in {options.output}: open {options.output / 'index.html'}")
    return 0


def build(units: list[str], fast: bool, output: Path) -> None:
    """Build the site of these units (of all, where none is named) and put it in the place of `output` in one step."""
    if output.exists() and not (output / "searchindex.js").exists() and any(output.iterdir()):
        raise ValueError(f"{output} is no site that this command made, so it is not replaced; choose another --output")
    released = released_units.released()
    names = sorted({released_units.find(name) for name in units} or released)
    notebooks = {name: released[name] for name in names}
    copies = executed.execute(notebooks, fast)
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".site-", dir=output.parent) as text:
        work = Path(text)
        write_source(work / "source", notebooks, copies)
        run_sphinx(work / "source", work / "site", work / "doctrees")
        (work / "site" / "_static" / "webpack-macros.html").unlink(missing_ok=True)  # a template of the theme, no page
        shutil.copytree(work / "source" / reading.FIGURES, work / "site" / reading.FIGURES, dirs_exist_ok=True)
        if output.exists():
            output.rename(work / "old")
        (work / "site").rename(output)


def write_source(folder: Path, notebooks: dict[str, Path], copies: dict[str, Path]) -> None:
    """Everything that Sphinx reads: Markdown and notebooks, laid out as in the repository."""
    repository = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["kvlab"]["repository"]
    units = [pages.describe(name, _read(path)) for name, path in notebooks.items()]
    (folder / reading.FIGURES).mkdir(parents=True)
    words = pages.words()
    for unit in units:
        note = pages.notebook_note(unit, repository)
        try:
            page = reading.page(_read(copies[unit.name]), note, words, folder)
        except ValueError as error:
            raise ValueError(f"{unit.name}: {error}") from None
        _write(folder / "notebooks" / f"{unit.name}.ipynb", json.dumps(page))
    documents = [path.relative_to(ROOT).as_posix() for pattern in DOCUMENTS for path in sorted(ROOT.glob(pattern))]
    pictures = [path.relative_to(ROOT).as_posix() for pattern in PICTURES for path in sorted(ROOT.glob(pattern))]
    for name in pictures:
        _write(folder / name, (ROOT / name).read_bytes())
    known = [*documents, *pictures, *(f"notebooks/{name}.ipynb" for name in notebooks)]
    for name in documents:
        source = (ROOT / name).read_text(encoding="utf-8")
        _write(folder / name, pages.document(source, PurePosixPath(name), ROOT, known, repository))
    _write(folder / "index.md", pages.home(units, documents, repository))
    _write(folder / "notebooks" / "index.md", pages.notebooks(units))
    _write(folder / "glossary.md", pages.glossary_page(units))
    _write(folder / "claims.md", pages.claims_page(units))
    for name in pages.groups(documents):
        _write(folder / f"{name}.md", pages.group(name, documents))


def run_sphinx(source: Path, output: Path, doctrees: Path) -> None:
    """Raises RuntimeError when Sphinx fails or has any warning."""
    from sphinx.cmd.build import main as sphinx_build

    options = ["-b", "html", "-q", "-W", "--keep-going", "-c", str(ROOT / "docs" / "site"), "-d", str(doctrees)]
    if sphinx_build([*options, str(source), str(output)]) != 0:
        raise RuntimeError("Sphinx has something to say against a page; its words stand above")


def _read(path: Path) -> reading.Notebook:
    notebook: reading.Notebook = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    sys.exit(main())
