"""`kvgrade import` against zips that were made to hurt, names of all kinds, and everything in the hostile catalogue."""

import errno
import io
import os
import re
import stat
import string
import struct
import sys
import tracemalloc
import unicodedata
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from class_files import RELEASED, UNIT, course, hand_in, standing, zipped
from helpers import ROOT
from hostile import tricks
from kvgrade import handin
from kvgrade.__main__ import main
from kvgrade.intake import archive, place
from kvgrade.intake.outcome import Row, text
from kvgrade.intake.roster import SAFE, Roster, Student, safe_id, words
from kvgrade.intake.schemes import Reader
from kvgrade.intake.stored import stored

GOOD = {"ada/hw.ipynb": hand_in("a")}


def found(data: bytes, tmp_path: Path) -> dict[str, archive.Entry]:
    (tmp_path / "in.zip").write_bytes(data)
    return {entry.path: entry for entry in archive.entries(tmp_path / "in.zip")}


def one(name: str, mode: int = 0, **changes: int) -> bytes:
    """A zip with one file, its fields changed."""
    out = io.BytesIO()
    info = zipfile.ZipInfo("x" * len(name), (2026, 3, 2, 10, 0, 0))
    info.external_attr = mode << 16
    with zipfile.ZipFile(out, "w") as book:
        book.writestr(info, b"{}")
    data = out.getvalue().replace(b"x" * len(name), name.encode())
    if "flag" in changes:
        central = data.rindex(b"PK\x01\x02")
        data = data[: central + 8] + struct.pack("<H", changes["flag"]) + data[central + 10 :]
    return data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (one("../../../evil.ipynb"), "leads out"),
        (one("/etc/evil.ipynb"), "leads out"),
        (one("C:/evil.ipynb"), "leads out"),
        (one("..\\..\\evil.ipynb"), "leads out"),
        (one("link.ipynb", stat.S_IFLNK | 0o777), "link"),
        (one("pipe.ipynb", stat.S_IFIFO | 0o666), "link"),
        (one("secret.ipynb", flag=1), "encrypted"),
        (one("-" * 60_000 + ".ipynb"), "too long"),
    ],
)
def test_a_bad_entry_costs_itself_only(data: bytes, why: str, tmp_path: Path) -> None:
    (entry,) = found(data, tmp_path).values()
    assert entry.data is None and why in entry.problem
    klass = course(tmp_path / "class")
    (tmp_path / "in.zip").write_bytes(zipped({"bob/inner.zip": data, **GOOD}))
    assert main(["import", str(tmp_path / "in.zip"), "--course", str(klass)]) == 1
    assert standing(klass) == {"ada": "a"}
    assert not list(tmp_path.parent.rglob("evil*")) and not os.path.exists("/etc/evil.ipynb")


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handin, "MOST_BYTES", 1 << 19)
    big = zipped({"big.ipynb": bytes(1 << 20)})
    entry = found(zipped({"bob/b.zip": big, **GOOD}), tmp_path)["bob/b.zip/big.ipynb"]
    assert entry.data is None and "more than" in entry.problem
    bomb = zipped({"big.ipynb": bytes(64 << 20)})
    tracemalloc.start()
    found(bomb, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20, "of 64 MiB only the first 512 KiB are unpacked"
    monkeypatch.setattr(archive, "MOST_NESTED", (2_000, 100_000))
    many = zipped({f"{n}.ipynb": bytes(1 << 15) for n in range(9)})
    entries = found(zipped({"bob/b.zip": many, **GOOD}), tmp_path)
    assert "too many bytes" in entries["bob/b.zip"].problem and entries["ada/hw.ipynb"].data
    monkeypatch.setattr(archive, "MOST_NESTED", (5, 1 << 20))
    assert "too many files" in found(zipped({"b.zip": many, **GOOD}), tmp_path)["b.zip"].problem
    monkeypatch.setattr(archive, "MOST_FILES", 5)
    with pytest.raises(ValueError, match="too many files"):
        found(many, tmp_path)


def test_a_header_that_lies_about_the_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size in the directory says 10 bytes, the data unpacks to a megabyte."""
    data = zipped({"x.ipynb": bytes(1 << 20)})
    central = data.rindex(b"PK\x01\x02")
    data = data[: central + 24] + struct.pack("<I", 10) + data[central + 28 :]
    assert found(data, tmp_path)["x.ipynb"].data is None


def test_zips_in_zips_end(tmp_path: Path) -> None:
    data = hand_in("a")
    for depth in range(5):
        data = zipped({"hw.ipynb" if not depth else "in.zip": data})
    (entry,) = found(data, tmp_path).values()
    assert "deep" in entry.problem


@pytest.mark.parametrize("junk", [b"", b"PK", b"PK\x03\x04" + bytes(200), zipped(GOOD)[:-30], zipped(GOOD)[100:]])
def test_a_broken_zip(tmp_path: Path, junk: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    entries = found(zipped({"bob/b.zip": junk, **GOOD}), tmp_path)
    (bad,) = (entry for path, entry in entries.items() if path.startswith("bob/b.zip"))
    assert entries["ada/hw.ipynb"].data and bad.data is None and "can't be" in bad.problem
    klass = course(tmp_path / "class")
    (tmp_path / "in.zip").write_bytes(junk)
    assert main(["import", str(tmp_path / "in.zip"), "--course", str(klass)]) == 1
    assert standing(klass) == {}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_no_bytes_break_the_reader(at: int, patch: bytes) -> None:
    data = zipped({"a/x.ipynb": b'{"cells": []}', "b.zip": zipped({"y.ipynb": b"{}"})})
    at %= len(data)
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "in.zip")
        path.write_bytes(data[:at] + patch + data[at + len(patch) :])
        try:
            for entry in archive.entries(path):
                assert (entry.data is None) == bool(entry.problem)
        except ValueError as error:
            assert "can't be read" in str(error)


def test_names_that_were_not_written_as_utf_8(tmp_path: Path) -> None:
    """macOS writes UTF-8 without the flag that says so."""
    data = zipped({"Jxx/x.ipynb": b"{}"}).replace(b"Jxx", "Jö".encode())
    assert list(found(data, tmp_path)) == ["Jö/x.ipynb"]


def test_the_exact_time_goes_before_the_local_one(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("x.ipynb", (2000, 1, 1, 0, 0, 0))
    info.extra = struct.pack("<HHBi", 0x5455, 5, 1, 1_700_000_000)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book:
        book.writestr(info, b"{}")
    assert found(out.getvalue(), tmp_path)["x.ipynb"].time.timestamp() == 1_700_000_000


NAMES = st.lists(st.text(string.ascii_letters + "äöüßéñøŁ-'", min_size=1, max_size=9), min_size=1, max_size=3)


@given(st.text(max_size=200))
def test_an_id_is_a_safe_folder_name_or_nothing(name: str) -> None:
    made = safe_id(name)
    assert made == "" or (SAFE.fullmatch(made) and "/" not in made and not made.startswith((".", "-")))


@given(st.text(string.ascii_letters + string.digits + "-_.@ ", min_size=1, max_size=90))
def test_a_safe_id_stays(name: str) -> None:
    if SAFE.fullmatch(name) and not name.endswith(("-", "_")):
        assert safe_id(name) == name


@given(NAMES, st.booleans(), st.integers(10, 10**8), st.integers(100, 10**9))
def test_canvas_names(name: list[str], late: bool, user: int, file: int) -> None:
    """The path as content_zipper.rb makes it: the sortable name in small letters without what is no letter."""
    sortable = re.sub(r"[^\w]", "", ", ".join(name).lower())
    if not sortable:
        return
    path = f"{sortable}_{'LATE_' if late else ''}{user}_{file}_hw (1).ipynb"
    sender = Reader([path], [UNIT]).read(path)
    assert (sender.scheme, sender.names, sender.number, sender.late) == ("canvas", (sortable,), str(user), late)
    row = Student(
        "me", frozenset(), frozenset(words(" ".join(name))), frozenset([unicodedata.normalize("NFC", sortable)])
    )
    assert Roster([row]).find(sender)[0] in (row, None)


@given(NAMES, st.integers(0, 10**9), st.booleans(), st.booleans())
def test_moodle_names(name: list[str], number: int, folders: bool, old: bool) -> None:
    full = " ".join(name)
    prefix = f"{full}_{number}_assignsubmission_file" + ("_" if old or not folders else "")
    path = prefix + ("/deep/" if folders else "") + "hw.ipynb"
    sender = Reader([path], [UNIT]).read(path)
    assert (sender.scheme, sender.names, sender.number) == ("moodle", (full.strip(),), str(number))


@given(NAMES, st.randoms())
def test_a_name_is_found_in_any_order_and_without_accents(name: list[str], random) -> None:
    full = " ".join(name)
    others = [Student(f"o{n}", frozenset(), frozenset([f"other{n}"]), frozenset([f"other{n}"])) for n in range(3)]
    me = Student("me", frozenset(), frozenset(words(full)), frozenset())
    if not words(full):
        return
    mixed = words(full)
    random.shuffle(mixed)
    path = f"{' '.join(mixed).upper()}/hw.ipynb"
    student, reason = Roster([*others, me]).find(Reader([path], []).read(path))
    assert student == me, reason


@given(st.lists(st.text(max_size=30), min_size=6, max_size=6))
def test_no_cell_of_the_report_is_a_formula(cells: list[str]) -> None:
    line = text([Row(*cells)]).split("\n", 1)[1]
    assert not re.search(r'(?:^|,)"?[=+\-@]', line) or any(re.search(r",\s*[=+\-@]", cell) for cell in cells)


def test_what_is_kept_gives_the_same_answers_and_facts() -> None:
    """Every hand-in of the catalogue, honest, odd and hostile."""
    material = tricks.material(ROOT)
    seen = 0
    for trick in tricks.all():
        data = trick.make(material).get(tricks.MAIN)
        if isinstance(data, bytes):
            before = handin.collect(data, RELEASED[UNIT])
            if before.unreadable:
                with pytest.raises(handin.Unreadable):
                    stored(data)
            else:
                assert handin.collect(stored(data), RELEASED[UNIT]) == before, trick.name
                seen += 1
    assert seen > 250


def test_a_killed_import_leaves_a_whole_hand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever write it dies at, the old hand-in or the new one stands there, and the old one is kept."""
    real = place.write_atomic
    for deadly in range(1, 4):
        folder = tmp_path / str(deadly) / "ada" / UNIT
        place.put(folder, b"old", archive.datetime(2026, 1, 1, tzinfo=archive.UTC))
        count = 0

        def write(path: Path, data: bytes, mode: int = 0o600, deadly: int = deadly) -> None:
            nonlocal count
            count += 1
            if count == deadly:
                raise KeyboardInterrupt
            real(path, data, mode)

        monkeypatch.setattr(place, "write_atomic", write)
        with pytest.raises(KeyboardInterrupt):
            place.put(folder, b"new", archive.datetime(2026, 2, 1, tzinfo=archive.UTC))
        monkeypatch.setattr(place, "write_atomic", real)
        assert (folder / f"{UNIT}.ipynb").read_bytes() in (b"old", b"new")
        assert place.put(folder, b"new", archive.datetime(2026, 2, 1, tzinfo=archive.UTC)).state == "taken"
        assert (folder / f"{UNIT}.ipynb").read_bytes() == b"new"
        assert b"old" in [path.read_bytes() for path in folder.glob("earlier-*.set-aside")]


def test_an_import_that_nobody_reads_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `import … | head -2`: the first print fails, after the hand-ins were placed."""

    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    klass, source, roster = course(tmp_path / "class"), tmp_path / "in.zip", tmp_path / "roster.csv"
    source.write_bytes(zipped(GOOD))
    roster.write_text("id,name\nada,Ada Lovelace\n", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", Closed())
    assert main(["import", str(source), "--roster", str(roster), "--course", str(klass)]) == 1
    assert standing(klass) == {"ada": "a"}
    kept = {path.name for path in (klass / "imports").iterdir()}
    assert kept == {"all-1.csv", f"files-{UNIT}.json", "roster-ids.json"}


def test_a_damaged_record_is_told_before_anything_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    klass, source = course(tmp_path / "class"), tmp_path / "in.zip"
    source.write_bytes(zipped(GOOD))
    (klass / "imports").mkdir()
    (klass / "imports" / f"files-{UNIT}.json").write_text("[]")
    assert main(["import", str(source), "--course", str(klass)]) == 1
    assert "is damaged: delete it" in capsys.readouterr().err and standing(klass) == {}
