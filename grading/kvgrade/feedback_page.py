"""The page that goes back to a learner: what earned points, the likely mistake where something did not, and a hint.

No held-out input and no expected value stands on it. Cases are named by their kind, and numbers in the error messages of
an answer, which are often inputs, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import pages
from .grade import NOT_ISOLATED
from .pages import code, number, text
from .results import Group, Mark, Result
from .standing import Place, Score, Standing
from .units import UnitError, find_units, read_unit
from .validate import hints
from .verdict import NOT_ATTEMPTED


def first_hints(unit: str) -> dict[str, str]:
    """The first hint of each exercise as markdown, from the unit; empty where it can't be read."""
    try:
        authored = read_unit(find_units([unit])[0])
        return {str(cell.name): hints(authored, cell)[0] for cell in authored.with_role("hints")}
    except (ValueError, UnitError):
        return {}


def page(
    title: str,
    result: Result,
    standing: Standing,
    places: Sequence[Place],
    first: Mapping[str, str],
) -> bytes:
    """The page of one hand-in. `places`: what carries points, in order; `first`: a hint by exercise, as markdown."""
    about = f"Feedback for {standing.student}: {title}"
    parts = [f"<h1>{text(title)}</h1>", f"<p>Feedback for {code(standing.student)}</p>"]
    if not result.isolated:
        parts.append(f'<p class="notice">{text(NOT_ISOLATED)}</p>')
    if result.unreadable:
        parts.append(_unreadable(result))
    parts += [_summary(standing, places), *_general(result, places)]
    if not result.unreadable:
        for place in places:
            score = standing.scores.get(place.name, Score())
            if place.written:
                parts.append(_question(place, score, place.name in result.answers))
            elif place.name in result.marks:
                facts = [fact for fact in result.facts if fact.startswith(f"{place.name}: ")]
                parts.append(_exercise(place, score, result.marks[place.name], facts, first.get(place.name, "")))
            elif _unmarked(score):
                parts.append(f"<h2>{code(place.name)} · {_waits(place)}</h2>")
    return pages.page(about, "\n".join(parts))


def _unreadable(result: Result) -> str:
    return (
        '<div class="notice"><h2>Your file could not be read</h2>\n'
        f"<p>{text(result.unreadable)}</p>\n<p>So nothing in it earned points. What to do:</p>\n<ol>"
        "<li>Open the notebook in JupyterLab or Colab. If it does not open, take an older copy, or a fresh notebook of "
        "the course, and put your answers into its answer cells.</li>"
        "<li>Save it, close it, and open it once more to see that your answers are there.</li>"
        f"<li>Hand in the saved file, {code(f'{result.unit}.ipynb')}, and tell your instructor.</li></ol></div>"
    )


def _summary(standing: Standing, places: Sequence[Place]) -> str:
    rows = []
    for place in places:
        score = standing.scores.get(place.name, Score())
        given = _waits(place) if _unmarked(score) else number(score.counts)
        rows.append([code(place.name), given, number(place.possible)])
    possible = number(sum(place.possible for place in places))
    out = pages.table("Points", ["exercise", "points", "out of"], rows, numbers=(1, 2))
    if standing.extra:
        out += f"<p>Extra credit: {number(standing.extra)} points, in the sums above.</p>"
    if standing.penalty:
        late = f" The hand-in came {_duration(standing.late)} after the due date." if standing.late else ""
        out += f"<p>Taken off since it came late: {number(standing.penalty)} points.{late}</p>"
    open_ones = [place for place in places if _unmarked(standing.scores.get(place.name, Score()))]
    why = {f"{'a written answer' if place.written else 'an exercise'} is {_waits(place)}": None for place in open_ones}
    so_far = f" so far; {', '.join(why)}" if why else ""
    return out + f"<p><strong>Total: {number(standing.total)} of {possible} points{so_far}.</strong></p>\n"


def _general(result: Result, places: Sequence[Place]) -> list[str]:
    """Facts that belong to no exercise on the page."""
    names = {place.name for place in places if not place.written}
    facts = [fact for fact in dict.fromkeys(result.facts) if fact.partition(": ")[0] not in names]
    if not facts:
        return []
    items = "".join(f"<li>{text(fact)}</li>" for fact in facts)
    return [f"<p>Noted in the file (this changes no points):</p>\n<ul>{items}</ul>"]


def _exercise(place: Place, score: Score, mark: Mark, facts: Sequence[str], hint: str) -> str:
    parts = [f"<h2>{code(place.name)} · {number(score.counts)} of {number(place.possible)} points</h2>"]
    if score.by_hand is not None:
        parts.append(f"<p>A person changed this from {number(mark.points)} to {number(score.by_hand)} points.</p>")
    if mark.note:
        parts.append(f"<p>{text(_sentence(mark.note[:1].upper() + mark.note[1:]))}</p>")
    if not all(group.mistake == NOT_ATTEMPTED for group in mark.groups):
        parts += [_groups(place.name, mark), *_diagnoses(mark)]
    parts += [f"<p>Noted: {text(_sentence(fact))}</p>" for fact in dict.fromkeys(facts)]
    if hint and mark.points < mark.possible:
        parts.append(f"<details><summary>A hint for {code(place.name)}</summary>\n{_markdown(hint)}</details>")
    return "\n".join([*parts, *_comment(score)])


def _groups(name: str, mark: Mark) -> str:
    right, wrong = '<span class="good">✓ right</span>', '<span class="bad">✗ not right</span>'
    rows = [
        [text(g.name), right if g.right else wrong, number(g.points if g.right else 0), number(g.points)]
        for g in mark.groups
    ]
    return pages.table(f"Kinds of case of {name}", ["kind of case", "result", "points", "out of"], rows, (2, 3))


def _diagnoses(mark: Mark) -> list[str]:
    """One paragraph for each thing that went wrong, naming the kinds of case where it showed."""
    found: dict[tuple[str, str], list[Group]] = {}
    for group in mark.groups:
        if not group.right and group.why:
            found.setdefault((_label(group), group.why), []).append(group)
    parts = []
    for (label, why), groups in found.items():
        where = ", ".join(text(group.name) for group in groups)
        seen = list(dict.fromkeys(g.seen for g in groups if g.seen and g.seen != mark.note))
        came = "".join(f"<br>What came: {text(_sentence(one))}" for one in seen)
        parts.append(f"<p><strong>{label}</strong> ({where}): {text(_sentence(why))}{came}</p>")
    return parts


def _label(group: Group) -> str:
    """What `why` is: the mistake that explains the group, a limit that was hit, or only the rule that was tested."""
    if group.mistake in ("stopped", "closed"):
        return "Why"
    return "Likely mistake" if group.mistake else "The rule"


def _question(place: Place, score: Score, answered: bool) -> str:
    unmarked = _unmarked(score)
    given = "not marked yet" if unmarked else f"{number(score.counts)} of {number(place.possible)} points"
    parts = [f"<h2>{code(place.name)} · {given}</h2>"]
    if unmarked:
        parts.append("<p>A person reads this answer. Its points come later.</p>")
    elif not answered:
        parts.append("<p>There is no answer: the cell is as it was handed out, or no longer there.</p>")
    return "\n".join([*parts, *_comment(score)])


def _comment(score: Score) -> list[str]:
    if not score.comment or score.comment == "No response.":  # nbgrader's own words for an untouched cell
        return []
    return [f'<p>Comment:</p>\n<p class="said">{text(score.comment)}</p>']


def _unmarked(score: Score) -> bool:
    return score.by_hand is None and score.auto is None


def _waits(place: Place) -> str:
    """What is said of a place without points: a person marks a written answer, the grader an exercise."""
    return "not marked yet" if place.written else "not graded yet"


def _markdown(source: str) -> str:
    """Our own hint as HTML. Links and pictures need something outside the page, so they stay text."""
    import mistune

    return str(mistune.create_markdown(escape=True)(source))


def _sentence(words: str) -> str:
    return words if words.endswith((".", "?", "!")) else words + "."


def _duration(seconds: float) -> str:
    """A stretch of time in the largest fitting unit."""
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= size:
            return f"{number(round(seconds / size, 2))} {name}"
    return f"{number(seconds)} seconds"
