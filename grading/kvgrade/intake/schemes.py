"""Who handed a file in, by the path under which a learning platform, Colab or an instructor keeps it.

- Moodle, mod/assign/classes/downloader.php: the folder `Full Name_PARTICIPANT_assignsubmission_file` with the files in
  it, ending in `_` before version 4; without folders the same as a prefix of the file's name. The number belongs to one
  assignment. Marked blindly, the name is `Participant`.
- Canvas, lib/content_zipper.rb: `lastnamefirstname_USER_FILE_name.ipynb`, with `_LATE` after the name when late, and
  `anon_CODE` in place of name and user in anonymous assignments. Numbers of files grow with time.
- Blackboard, as nbgrader's documentation of `zip_collect` shows it: `homework_user_attempt_2016-01-30-15-00-00_name`.
- GitHub Classroom, `gh classroom clone student-repos`: `homework-submissions/homework-username/`.
- Google Classroom names copies `Full Name - title`; Colab `Copy of title`.
- nbgrader, and most people: a folder for each student; else flat files with the student's name in their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

_MOODLE = re.compile(r"(?P<name>.+?)(?:_(?P<number>\d+))?_assignsubmission_(?:file|onlinetext|comments)(?:_|$)")
_CANVAS = re.compile(r"(?P<name>[^\W_]\w*?)(?P<late>_LATE)?_(?P<user>[1-9]\d+)_(?P<file>[1-9]\d\d+)_(?=.)")
_CANVAS_HIDDEN = re.compile(r"(?P<late>LATE_)?(?P<user>anon_[A-Za-z0-9]{5})_(?P<file>\d+)_(?=.)")
_BLACKBOARD = re.compile(r".+_(?P<user>[^_]+)_attempt_(?P<time>\d{4}(?:-\d\d){5})(?:_|\.)")
_COPY_OF = re.compile(r"^(copy|kopie|copie|copia|cópia|kopia|копия)( \d+)? (of|von|de|av|van)? ?", re.I)
_NUMBERED = re.compile(r"(?: ?\((\d{1,9})\)|[ _-]+(?:copy|kopie) ?(\d{0,9}))$", re.I)
_ENDING = re.compile(r"(\.ipynb|\.json|\.txt)+$", re.I)
_NOBODYS = re.compile(  # folders that are no student's
    r"submissions?|submit(ted)?|homeworks?|hand-?ins?|assignments?|notebooks|work|files|downloads?|kvlab(-course)?"
    r"|colab notebooks|(my|google) drive|takeout|classroom",
    re.I,
)


@dataclass(frozen=True)
class Sender:
    """What a path says about its owner. `names` are what to look for in a roster, the likeliest first."""

    scheme: str
    names: tuple[str, ...] = ()
    number: str = ""  # the platform's number for the student
    late: bool = False
    attempt: int = 0  # grows with time, where the platform says so
    time: datetime | None = None
    copy: int = 0  # the number that a browser or file manager gave a copy
    stem: str = ""  # of a file in a folder: its own name without the unit's
    part: str = ""  # of the path: the one that Moodle or Canvas named


class Reader:
    """Reads paths of one import. `paths` are all of them, to see which folders are common to all.

    zone: of times in names; None for this machine's.
    """

    def __init__(self, paths: Iterable[str], units: Iterable[str], zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._units = [_unit_pattern(unit) for unit in units]
        others = [parts for path in paths if not any(map(_MOODLE.match, parts := path.split("/")))]
        folders = [self._folders(parts) for parts in others]
        self._skip = _common([names for names in folders if names])

    def read(self, path: str) -> Sender:
        """The sender of a file."""
        parts = path.split("/")
        stem, copy = _stem(parts[-1])
        for part in parts:
            if match := _MOODLE.match(part):
                name = match["name"].strip()
                return Sender("moodle", (name,), match["number"] or "", copy=copy, part=part)
            if match := _CANVAS_HIDDEN.match(part) or _CANVAS.match(part):
                names = (match["name"],) if "name" in match.groupdict() else ()
                number = int(match["file"][:18])
                return Sender("canvas", names, match["user"], bool(match["late"]), number, copy=copy, part=part)
            if match := _BLACKBOARD.match(part):
                return Sender("blackboard", (match["user"],), time=_stamp(match["time"], self._zone), copy=copy)
        folders = self._folders(parts)
        folders = folders[min(self._skip, max(len(folders) - 1, 0)) :]
        own = self._bare(stem)
        if folders:
            likely = [self._bare(folders[0]), *folders, *([own] if own else [])]
            return Sender("folder", tuple(dict.fromkeys(likely)), copy=copy, stem=own)
        return Sender("file", (own,) if own else (), copy=copy)

    def _folders(self, parts: Sequence[str]) -> list[str]:
        """The folders of a path that may be a student's."""
        found = []
        prefix = ""
        for part in parts[:-1]:
            if part.lower().endswith("-submissions"):  # GitHub Classroom: the folders in it begin with the same word
                prefix = part[: -len("submissions")]
                continue
            name = _ENDING.sub("", re.sub(r"\.zip$", "", part, flags=re.I)).strip()
            name = name.removeprefix(prefix)
            if name and not _NOBODYS.fullmatch(name) and self._bare(name):
                found.append(name)
        return found

    def _bare(self, text: str) -> str:
        """A text without units' names."""
        for pattern in self._units:
            text = pattern.sub(" ", text)
        return text.strip(" -_.,")


def _stem(name: str) -> tuple[str, int]:
    """A file's name without endings and what copying added to it; the copy's number."""
    stem = _COPY_OF.sub("", _ENDING.sub("", name).strip())
    copy = 0
    while match := _NUMBERED.search(stem):
        copy = copy or next((int(group) for group in match.groups() if group), 1)
        stem = _ENDING.sub("", stem[: match.start()]).strip()
    return stem, copy


def _unit_pattern(unit: str) -> re.Pattern[str]:
    number, _, name = unit.partition("_")
    words = "[-_ ]?".join(map(re.escape, name.split("_")))
    return re.compile(
        rf"(?<![A-Za-z0-9])(?:{number}[-_ ]+)?{words}(?![A-Za-z0-9])|(?<![A-Za-z0-9])unit[-_ ]?{number}", re.I
    )


def _common(folders: list[list[str]]) -> int:
    """How many leading folders are common to all files, while the ones below them differ."""
    depth = 0
    while (
        len({tuple(names[: depth + 1]) for names in folders}) == 1
        and all(len(names) > depth + 1 for names in folders)
        and len({tuple(names[: depth + 2]) for names in folders}) > 1
    ):
        depth += 1
    return depth


def _stamp(text: str, zone: tzinfo | None) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d-%H-%M-%S").replace(tzinfo=zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
