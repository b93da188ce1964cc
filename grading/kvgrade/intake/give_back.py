"""Feedback pages in a zip that Moodle or Canvas takes back, under the names that its own download had.

Moodle, *Upload multiple feedback files in a zip* (mod/assign/feedback/file/importziplib.php): the first part of a path
that reads `FULL NAME_PARTICIPANT_assignsubmission_file` with a known number says whose feedback the rest of the path
is; its name is free. The full name is not looked at, but must have no `_`, at which Moodle splits.

Canvas, *Re-Upload Submissions* (app/models/abstract_assignment.rb, `infer_comment_context_from_filename`): the first two
numbers between `_` of a file's name are the student's and the handed-in file's. What comes is attached to a comment,
**under the name of the file that was handed in**. A web page would come back named `.ipynb`; so a notebook is sent, and
only in place of one.

Both pass over what they do not know without a word. So every student who is not in the zip is named.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..texts import clean
from .page_notebook import as_notebook
from .schemes import Reader, Sender

PLATFORMS = {"moodle": "Moodle", "canvas": "Canvas"}
_NO_RECORD = "where their hand-in came from is not known: import the download again"


@dataclass(frozen=True)
class Packed:
    """The zip (empty bytes where nobody is in it), who is in it, and one line for each reason why others are not."""

    data: bytes
    students: list[str]
    left: list[str]


def pack(platform: str, unit: str, pages: Mapping[str, bytes], sources: Mapping[str, str]) -> Packed:
    """The pages of a unit, by student, as a zip for `platform`, a key of PLATFORMS.

    sources: {student: path of the hand-in in the platform's download}, of the whole class, also where `pages` are of some
    students only. Nobody is guessed: whose path says no number, and all students with one number, are left out and named.
    The same pages give the same bytes.
    """
    reader = Reader([], [])
    senders = {student: reader.read(sources[student]) for student in sources}
    numbers = Counter(one.number for one in senders.values() if one.scheme == platform)
    left: dict[str, list[str]] = defaultdict(list)
    files: dict[str, tuple[str, bytes]] = {}
    for student, page in sorted(pages.items()):
        sender = senders.get(student)
        why = _why_not(platform, sender, sources.get(student, "")) if sender else _NO_RECORD
        if sender and not why and numbers[sender.number] > 1:
            same = [
                clean(other)
                for other, one in sorted(senders.items())
                if (one.scheme, one.number) == (platform, sender.number)
            ]
            why = f"{' and '.join(same)} have one number in the download from {PLATFORMS[platform]}, and only one of them can be its owner"
        if sender and not why:
            name, data = _moodle(unit, sender, page) if platform == "moodle" else (sender.part, as_notebook(page))
            files[student] = name, data
        else:
            left[why].append(clean(student))
    lines = [f"{len(who)} not in the zip, {why}: {', '.join(who)}" for why, who in sorted(left.items())]
    return Packed(_zip(list(files.values())) if files else b"", list(files), lines)


def _why_not(platform: str, sender: Sender, path: str) -> str:
    """Why the platform would not find the owner of this path's feedback, or ""."""
    if sender.scheme != platform or not sender.number:
        return f"their hand-in came under no name of a download from {PLATFORMS[platform]}"
    if platform == "canvas":
        if not path.endswith(sender.part) or not path.lower().endswith(".ipynb"):
            return "they handed in no .ipynb file, whose name Canvas would give the feedback"
        if sender.part.rpartition("_")[2].startswith("link"):
            return "Canvas takes the name of their file for that of a link"
        if "\\" in sender.part or clean(sender.part) != sender.part:
            return (
                "the name of their file has a backslash or other characters that don't come through a zip as they are"
            )
        if _canvas_reads(sender.part) != (sender.number, sender.attempt):
            return "Canvas would read other numbers in the name of their file than the student's and the file's"
    return ""


def _canvas_reads(name: str) -> tuple[str, int] | None:
    """The student's number or code and the file's number, as Canvas finds them in a name; None where there are not two."""
    pieces = [piece for piece in name.split("_") if piece != "LATE"]
    if pieces[0] == "anon":
        owner, number = "_".join(pieces[:2]), "".join(pieces[2:3])
    else:
        numbers = [piece for piece in pieces if re.fullmatch("[0-9]+", piece)]
        owner, number = "".join(numbers[:1]), "".join(numbers[1:2])
    return (owner, int(number)) if re.fullmatch("[0-9]+", number) else None


def _moodle(unit: str, sender: Sender, page: bytes) -> tuple[str, bytes]:
    name = re.sub(r'[_\\/:*?"<>|]+', " ", clean(sender.names[0], 100)).strip() or "Participant"
    return f"{name}_{sender.number}_assignsubmission_file_/{unit}.html", page


def _zip(files: list[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files:
            info = zipfile.ZipInfo(name)  # of 1980: without the time of day the bytes are the same again
            info.external_attr = 0o644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()
