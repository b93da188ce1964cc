"""Which of several hand-ins of one student counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from .schemes import Sender
from .spool import Kept

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_DOWNLOAD = timedelta(minutes=10)


@dataclass
class Version:
    """One file that a student handed in for a unit.

    data: what would be kept. answers: equal for equal answers, "" when there are none. file_time: of the file, `time`:
    of the hand-in, as far as known, for finding the newest; `stamp`: the same where marks may depend on it.
    """

    path: str
    sender: Sender
    data: Kept
    answers: str
    damaged: str = ""
    file_time: datetime | None = None
    packed: bool = False  # the file stands in a zip, which keeps times; copies of files often have the copy's
    time: datetime | None = None
    stamp: datetime | None = None

    @property
    def age(self) -> tuple[int, datetime, int]:
        """Grows with time: the platform's number of the file, its time, the number of the copy in its name."""
        return self.sender.attempt, self.time or _LONG_AGO, self.sender.copy


@dataclass
class Choice:
    """The version that counts, or None; what to tell about it; whether a person should look."""

    version: Version | None
    words: list[str] = field(default_factory=list)
    look: bool = False


def choose(versions: list[Version]) -> Choice:
    """The newest that can be read counts. Of several of one age an edited one beats an untouched one."""
    whole = [version for version in versions if not version.damaged] or versions
    newest = max(version.age for version in whole)
    last = [version for version in whole if version.age == newest]
    last = [version for version in last if version.answers] or last
    distinct = {version.data.digest if version.damaged else version.answers for version in last}
    if len(distinct) > 1:
        files = ", ".join(version.path for version in last)
        return Choice(None, [f"{len(last)} different files of the same age: keep one and import again ({files})"], True)
    choice = Choice(last[-1])
    if len(versions) > 1:
        choice.words.append(f"the newest of {len(versions)} files")
    if any(version.damaged and version.age > newest for version in versions) and not last[-1].damaged:
        choice.words.append("a newer file is damaged: ask its owner")
        choice.look = True
    if not last[-1].answers and any(version.answers for version in versions):
        choice.words.append("it is untouched, an older file has answers: ask its owner")
        choice.look = True
    return choice


def of_one_download(times: list[datetime]) -> bool:
    """Whether times, one for each sender, are those of a download and not of hand-ins: three or more in ten minutes.

    Canvas and Moodle (since 3.11) write zips with the time of the moment; so do `git clone` and most unpackers.
    """
    return len(times) >= 3 and max(times) - min(times) <= _ONE_DOWNLOAD
