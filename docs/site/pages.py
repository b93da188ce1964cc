"""The pages that are no notebooks: home, the lists of notebooks and documents, the glossary, the register of claims."""

from __future__ import annotations

import html
import itertools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from reading import Notebook, anchor, cards, terms, text

from kvlab import claims, glossary

_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
_ABOUT = re.compile(r"^\*(About .+)\*$", re.M)
_FENCE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.M | re.S)

GROUPS = {
    "learners": ("Learners", "Install the course, work through it, and give it larger models."),
    "instructors": ("Instructors", "Release the notebooks to a class, collect them, and mark them safely."),
    "authors": ("Authors and CI", "Write units, run everything unattended, and see what was measured."),
}
"""Name of a group of documents: its title, and one sentence."""

_GROUP_OF = {
    "learners.md": "learners",
    "colab.md": "learners",
    "models.md": "learners",
    "providers.md": "learners",
    "instructors.md": "instructors",
    "grading.md": "instructors",
    "authoring.md": "authors",
    "CONTRIBUTING.md": "authors",
    "ci.md": "authors",
}
"""Where a file of docs/ belongs; one that is not named here is for authors."""


@dataclass(frozen=True)
class Unit:
    """What the pages say about one notebook. `about` is its line of minutes, cards and points, without the stars."""

    name: str
    title: str
    about: str
    cards: Mapping[int, str]
    terms: tuple[str, ...]

    @property
    def short(self) -> str:
        """The number that people use, such as 01."""
        return self.name.partition("_")[0]


def describe(name: str, notebook: Notebook) -> Unit:
    """Read off a released notebook. Raises ValueError without a title."""
    first = text(notebook["cells"][0])
    title = re.match(r"# (.+)", first)
    if title is None:
        raise ValueError(f"{name} does not begin with a title such as '# 01 · ...'")
    about = _ABOUT.search(first)
    return Unit(name, title[1].strip(), about[1] if about else "", cards(notebook), tuple(terms(notebook)))


def words() -> dict[str, str]:
    """Lower-case forms of the glossary's terms, plurals too, to the term."""
    found: dict[str, str] = {}
    for term in glossary.terms():
        for form in (term, term + "s"):
            found.setdefault(form.lower(), term)
    return found


def notebook_note(unit: Unit, repository: str) -> str:
    """What stands below the title of a notebook's page."""
    source = f"{repository}/blob/main/notebooks/{unit.name}.ipynb"
    return (
        ":::{note}\nThis page is for reading: the notebook as one machine ran it, so times are of that machine. "
        "Exercises are open, and a widget shows one picture. To work with it, get the course (`make lab`) "
        f"or start from [the notebook itself]({source}).\n:::\n"
    )


def home(units: list[Unit], documents: list[str], repository: str) -> str:
    """The first page."""
    count = sum(len(unit.cards) for unit in units)
    figure = "![Time of three loops that generate text, against the number of new tokens: the loop without a cache is the slowest and grows fastest](docs/three-loops.png)"
    return f"""# LLM internals: KV cache and generation

How does a language model write text: what does it keep, what does it compute again, and what does that cost?
This is the course's reading room. Its {len(units)} notebooks, {count} cards (topics) in all, stand here as they ran: code, numbers and figures.

{figure}

The course itself is interactive. It runs on a laptop, without a network and without a GPU, and its check cells say at once what is wrong with an answer:

```sh
git clone {repository} && cd {PurePosixPath(repository).name}
make lab      # makes .venv, installs, opens JupyterLab
```

It needs Python 3.11 or newer, git and make: [how to begin](docs/learners.md). Or open a notebook [on Colab](docs/colab.md), where nothing is installed.

## Notebooks

{_list_of(units, "notebooks/")}

## Beside them

- [Glossary](glossary.md): {len(glossary.terms())} words of the field, each in one or two plain sentences.
- [Claims](claims.md): a register of {len(claims.rows())} statements about the KV cache and generation, each with what we computed and its source.
{_group_lines(documents)}

{_toctree(["notebooks/index", *groups(documents), "glossary", "claims"], hidden=True)}
"""


def notebooks(units: list[Unit]) -> str:
    """The list of notebooks."""
    return f"# Notebooks\n\n{_list_of(units, '')}\n\n{_toctree([unit.name for unit in units], hidden=True)}\n"


def group(name: str, documents: list[str]) -> str:
    """The list of the documents of one group."""
    title, about = GROUPS[name]
    return f"# {title}\n\n{about}\n\n{_toctree(_documents(name, documents))}\n"


def glossary_page(units: list[Unit]) -> str:
    """Every term under a heading of its own, so that search finds it by name, with the notebooks that use it."""
    parts = ["---\ntocdepth: 2\n---\n\n# Glossary\n\nThe words of this course, each in one or two plain sentences."]
    for letter, group_terms in itertools.groupby(glossary.terms(), key=lambda term: term[0].upper()):
        parts.append(f"## {letter}")
        for term in group_terms:
            used = [f"[{unit.title}](notebooks/{unit.name}.ipynb)" for unit in units if term in unit.terms]
            parts.append(f"({anchor(term)})=\n### {_escape(term)}")
            parts.append(f"<p>{html.escape(glossary.explain(term))}</p>")
            if used:
                parts.append(f"Used in {', '.join(used)}.")
    return "\n\n".join(parts) + "\n"


def claims_page(units: list[Unit]) -> str:
    """The register by card, with a form that filters it; without scripts all of it is shown."""
    owners = {number: unit for unit in units for number in unit.cards}
    verdicts = "".join(f"<option>{html.escape(verdict)}</option>" for verdict in claims.VERDICTS)
    choices = "".join(
        f'<option value="{unit.short}">{html.escape(unit.title)}</option>' for unit in units if unit.cards
    )
    form = (
        '<form class="claims-filter" role="search" aria-label="Filter the claims" hidden>'
        '<label>Words <input type="search" name="words"></label>'
        f'<label>Notebook <select name="unit"><option value="">all</option>{choices}</select></label>'
        f'<label>Verdict <select name="verdict"><option value="">all</option>{verdicts}</select></label>'
        '<output name="count" aria-live="polite"></output></form>'
    )
    parts = [
        "# Claims",
        f"What people say about the KV cache and generation, against what this course computes. {claims.GUIDE}",
        _meanings(),
        form,
    ]
    rows = sorted(claims.rows(), key=lambda row: row["card"])
    for number, chosen in itertools.groupby(rows, key=lambda row: row["card"]):
        owner = owners.get(number)
        title = f"Card {number} · {owner.cards[number]}" if owner else f"Card {number}" if number else "The whole guide"
        parts.append(f"(card-{number})=\n## {title}")
        if owner:
            parts.append(f"Shown in [{owner.title}](project:#lesson-card-{number}).")
        parts += [_claim(row, owner.short if owner else "") for row in chosen]
    return "\n\n".join(parts) + "\n"


def _meanings() -> str:
    """What the words of a verdict mean."""
    return "What a verdict says:\n\n" + "\n".join(f"- **{word}**: {text}" for word, text in claims.MEANINGS.items())


def _claim(row: claims.Row, unit: str) -> str:
    """One claim as one block of HTML (no empty line inside, so Markdown leaves it alone)."""
    ((said, guide, ours, verdict, why, source),) = claims.show(ids=[row["id"]]).key.rows
    name = f"claim-{row['id'].replace('.', '-').lower()}"
    by = row["compute"]["fn"] if "compute" in row else row.get("measured_by")
    shown = {
        "As it is said": html.escape(guide),
        "What we computed": html.escape(ours) + (f" <code>{html.escape(by)}</code>" if by else ""),
        "Verdict": f'<span class="verdict">{html.escape(verdict)}</span>',
        "Why": html.escape(why),
        "Source": html.escape(source),
    }
    items = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for label, value in shown.items())
    return (
        f'<div class="claim" id="{name}" data-unit="{unit}" data-verdict="{html.escape(verdict)}">'
        f'<p><a href="#{name}">{row["id"]}</a> <strong>{html.escape(said)}</strong></p><dl>{items}</dl></div>'
    )


def document(source: str, path: PurePosixPath, root: Path, pages: Iterable[str], repository: str) -> str:
    """A Markdown file of the repository for the site: links to files that are no pages here lead to the repository.

    path: where the file lies below `root`. pages: files below the site's source folder that are pages or pictures here.
    Raises ValueError for a link to a file that does not exist.
    """
    known = set(pages)

    def link(match: re.Match[str]) -> str:
        label, target = match.groups()
        file, hash_, fragment = target.partition("#")
        if not file or re.match(r"[a-z]+:", target):
            return match[0]
        wanted = PurePosixPath(os.path.normpath(path.parent / file))
        if str(wanted) == "README.md":
            return f"{label}({os.path.relpath('index.md', path.parent)})"
        if str(wanted) in known:
            return f"{label}({os.path.relpath(wanted, path.parent)}{hash_}{fragment})"
        if not (root / wanted).exists():
            raise ValueError(f"{path} has a link to {target}, which does not exist")
        return f"{label}({repository}/blob/main/{wanted}{hash_}{fragment})"

    parts = _FENCE.split(source)
    return "".join(part if number % 2 else _LINK.sub(link, part) for number, part in enumerate(parts))


def _list_of(units: list[Unit], folder: str) -> str:
    lines = []
    for unit in units:
        lines.append(f"- [{unit.title}]({folder}{unit.name}.ipynb)" + (f"  \n  {unit.about}" if unit.about else ""))
    return "\n".join(lines)


def _documents(name: str, documents: list[str]) -> list[str]:
    """Files of one group, in the order of the table above, then by name."""
    order = list(_GROUP_OF)

    def place(path: str) -> tuple[int, str]:
        file = PurePosixPath(path).name
        return (order.index(file) if file in order else len(order), file.lower())

    chosen = [path for path in documents if _GROUP_OF.get(PurePosixPath(path).name, "authors") == name]
    return [path.removesuffix(".md") for path in sorted(chosen, key=place)]


def groups(documents: list[str]) -> list[str]:
    """The groups that have a document, in their order."""
    return [name for name in GROUPS if _documents(name, documents)]


def _group_lines(documents: list[str]) -> str:
    return "\n".join(f"- [{GROUPS[name][0]}]({name}.md): {GROUPS[name][1]}" for name in groups(documents))


def _toctree(entries: list[str], hidden: bool = False) -> str:
    options = ":hidden:\n" if hidden else ":maxdepth: 1\n"
    return "```{toctree}\n" + options + "\n" + "\n".join(entries) + "\n```"


def _escape(words_: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>#$&{}])", r"\\\1", words_)
