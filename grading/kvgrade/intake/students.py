"""The student's id for each sender: by the roster, else by the scheme's own names. Nobody is guessed."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from .roster import Roster, Student, safe_id, words
from .schemes import Sender

_NO_NAME = re.compile(
    r"hw|homework|notebook|untitled|solutions?|answers?|final|submission|assignment|unit|lab|exercises?|new|old|my|draft"
    r"|version|test|copy|work"
)


class Names:
    """The ids of all senders of one import; `notebooks` are those of notebooks.

    known: ids that stand in the class already and are the only ones to be used without a roster; None for any.
    """

    def __init__(
        self,
        roster: Roster | None,
        senders: Sequence[Sender],
        notebooks: Sequence[Sender] = (),
        known: Collection[str] | None = None,
    ) -> None:
        self._roster = roster
        self._known = None if known is None else {own.casefold(): own for own in sorted(known)}
        moodle = {(sender.names[0], sender.number) for sender in senders if sender.scheme == "moodle" and sender.number}
        given = {name for name, _ in moodle}  # one word such as "Participant" for all who are marked blindly
        self._blind = len(moodle) > 1 and len(given) == 1 and len(words(min(given))) == 1
        names: dict[str, set[str]] = defaultdict(set)
        numbers: dict[str, set[str]] = defaultdict(set)
        for sender in senders:
            own = self._own(sender).casefold()
            names[own] |= set() if sender.scheme == "canvas" else set(sender.names[:1])
            numbers[own] |= {sender.number} - {""}
        self._twice = {own for own in names if len(names[own]) > 1 or len(numbers[own]) > 1}
        self._shared = self._shared_folders(notebooks)

    def of(self, sender: Sender) -> tuple[str, str, Student | None]:
        """(the id or "", why there is none, the roster's row)."""
        if self._roster is not None:
            student, reason = self._roster.find(sender)
            return student.id if student else "", reason, student
        own = self._own(sender)
        if not own:
            what = "give a roster, or put it into a folder with the student's id"
            return "", f"whose it is can't be seen from its path: {what}", None
        if sender.scheme == "folder" and own in self._shared:
            return "", f"{own} may be a folder of several students: give a roster, or a folder to each", None
        if own.casefold() in self._twice:
            return "", f"different senders come to the id {own}: give a roster", None
        if self._known is not None and own.casefold() not in self._known:
            return "", f"{own} would be a new id, and this class has its ids from a roster: name it with --roster", None
        return own if self._known is None else self._known[own.casefold()], "", None

    def told(self, sender: Sender, student: Student | None) -> str:
        """What to tell about an id that is not as its path or the roster has it, or ""."""
        if student is not None:
            return f"{student.given} of the roster is {student.id} from here on" if student.given != student.id else ""
        own = "" if self._roster or not sender.names else self._own(sender)
        return f"known as {own} from here on" if own and own not in (sender.names[0], sender.number) else ""

    def _shared_folders(self, notebooks: Sequence[Sender]) -> set[str]:
        """Folders with two notebooks or more whose names could be those of students, as no other folder has them."""
        stems = {(self._own(sender), " ".join(words(sender.stem))) for sender in notebooks if sender.scheme == "folder"}
        folders = Counter(stem for _, stem in stems)
        named = Counter(own for own, stem in stems if folders[stem] == 1 and _is_like_a_name(stem))
        return {own for own, count in named.items() if count > 1}

    def _own(self, sender: Sender) -> str:
        """The id that a sender has without a roster. Canvas' numbers are one per student, Moodle's one per hand-in."""
        if sender.scheme == "canvas":
            return sender.number
        if self._blind and sender.scheme == "moodle":
            return safe_id(f"{sender.names[0]} {sender.number}")
        if not sender.names or (sender.scheme == "file" and not _is_like_a_name(sender.names[0])):
            return ""
        return safe_id(sender.names[0])


def _is_like_a_name(text: str) -> bool:
    """Whether a file's name has more in it than `hw 2 final`."""
    own = [word for word in words(text) if not _NO_NAME.fullmatch(word)]
    return sum(map(len, own)) > 2 and not (len(own) == 1 and own[0].isdigit() and len(own[0]) < 5)
