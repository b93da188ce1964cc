"""README and docs keep their word: every command they name exists, every link and every file they name is there."""

import argparse
import contextlib
import importlib
import io
import re
import shlex
from pathlib import Path

import nbformat
import pytest

import kvgrade.__main__ as grader
from helpers import ROOT
from kvlab.cli.main import build_parser

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(r"^(?:src|tests|docs|data|grading|benchmarks|notebooks|\.ci|\.github)/[\w./-]+\.\w+$")
BUILT = ("grading/source/", "grading/gradebook")  # git ignores them
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))


def commands(text: str) -> list[str]:
    """The lines of code blocks and the pieces of inline code, without comments."""
    blocks = re.findall(r"^```[^\n]*\n(.*?)^```", text, re.M | re.S)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    lines = [line for block in blocks for line in block.splitlines()] + inline
    pieces = [piece for line in lines for piece in re.split(r"\s&&\s|\s\|\s", re.sub(r"\s#.*", "", line))]
    return [re.sub(r"^(?:sudo |- run: |[A-Z_]+=\S* )+", "", piece.strip()) for piece in pieces]


def words(command: str) -> list[str]:
    """Its arguments as if typed: placeholders such as [--port N], N and … become something that fits."""
    plain = re.sub(r"\$\{\{.*?\}\}", "01", command).replace("[", "").replace("]", "")
    return ["1" if word == "N" else word for word in shlex.split(plain) if word not in ("…", "...")]


def kvlab_parser() -> argparse.ArgumentParser:
    return build_parser()


def kvgrade_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    group = parser.add_subparsers(required=True)
    for name in grader.COMMANDS:
        importlib.import_module(f"kvgrade.cli.{name}").add_parser(group)
    return parser


def refusal(parser: argparse.ArgumentParser, arguments: list[str]) -> str:
    """Why these arguments do not parse, "" when they do. A text may name a command without what it needs."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(arguments)
    except SystemExit as error:
        why = said.getvalue().splitlines()[-1] if error.code else ""
        return "" if "arguments are required" in why else why
    return ""


def wrong_commands(text: str) -> list[str]:
    """Each command of ours in a text that could not be typed so, with the reason."""
    kvlab, kvgrade = kvlab_parser(), kvgrade_parser()
    nbgrader = importlib.import_module("nbgrader.apps.nbgraderapp").NbGraderApp.subcommands
    found = []
    for command in commands(text):
        ours = re.match(r"(?:\.venv/bin/|python -m )?(kvlab|kvgrade) (?=[a-z-])(.*)", command)
        if ours:
            why = refusal(kvlab if ours[1] == "kvlab" else kvgrade, words(ours[2]))
            found += [f"{command}: {why}"] if why else []
        elif made := re.match(r"make ([a-z-]+)(?: |$)", command):
            found += [] if made[1] in TARGETS else [f"{command}: no such target"]
        elif graded := re.match(r"nbgrader ([a-z_]+)", command):
            found += [] if graded[1] in nbgrader else [f"{command}: no such command of nbgrader"]
        elif run := re.match(r"python ((?:benchmarks|tests)/\S+)", command):
            found += [] if (ROOT / run[1]).is_file() else [f"{command}: no such file"]
    return found


def anchor(heading: str) -> str:
    """A heading's anchor on GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def broken_links(page: Path, text: str) -> list[str]:
    """Relative links, in text but not in code, that lead nowhere."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)
    found = []
    for target in LINK.findall(prose):
        path, _, part = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or not there.is_relative_to(ROOT):
            found.append(target)
            continue
        headings = re.findall(r"^#+ (.*)$", there.read_text(encoding="utf-8"), re.M) if there.suffix == ".md" else []
        if part and part not in map(anchor, headings):
            found.append(target)
    return found


@each_page
def test_every_command_can_be_typed(page: Path) -> None:
    assert wrong_commands(page.read_text(encoding="utf-8")) == []


@each_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


@each_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = [name for name in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")) if NAMED_FILE.match(name)]
    named = [name for name in named if "NN" not in name]
    assert [name for name in named if not name.startswith(BUILT) and not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_command_in_a_notebook_can_be_typed(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert wrong_commands("\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("`kvlab rnu 01`", "invalid choice: 'rnu'"),
        ("```\nkvlab run --fsat\n```", "unrecognized arguments: --fsat"),
        ("`kvlab run --timeout soon`", "invalid float"),
        ("`.venv/bin/kvlab lba --port 9000`", "invalid choice"),
        ("`python -m kvgrade bild`", "invalid choice"),
        ("`make tset`", "no such target"),
        ("`nbgrader autogarde 01`", "no such command of nbgrader"),
        ("`python benchmarks/none.py`", "no such file"),
        ("```\ncd grading && kvlab rnu  # why\n```", "invalid choice"),
    ],
)
def test_a_wrong_command_is_noticed(text: str, said: str) -> None:
    (found,) = wrong_commands(text)
    assert said in found


def test_right_commands_pass() -> None:
    text = "`kvlab run` `kvlab --help` `kvlab …` `KVLAB_FULL=1 kvlab serve [--model primer] [--port N]` `make lab X=1`"
    assert wrong_commands(text) == []


@pytest.mark.parametrize(
    "target", ["none.md", "docs/none.png", "docs/models.md#no-such-part", "../../etc/passwd", "#x"]
)
def test_a_broken_link_is_noticed(target: str) -> None:
    page = ROOT / "README.md"
    assert broken_links(page, f"[a]({target}) `[b](nowhere.md)` [c](https://example.org) [d](docs/ci.md)") == [target]


def test_every_page_of_docs_is_reached_from_the_readme() -> None:
    """Through at most one other page."""
    start = (ROOT / "README.md").read_text(encoding="utf-8")
    first = {link.partition("#")[0] for link in LINK.findall(start)}
    second = {
        f"docs/{link.partition('#')[0]}"
        for page in first
        if page.startswith("docs/") and page.endswith(".md") and (ROOT / page).is_file()
        for link in LINK.findall((ROOT / page).read_text(encoding="utf-8"))
    }
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= first | second
    assert {"CONTRIBUTING.md", "CHANGELOG.md"} <= first
