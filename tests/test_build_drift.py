"""Drift: one byte that differs from what the units give is noticed, with a warm cache and with none."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kvgrade import build, units
from kvgrade.__main__ import main
from tiny_course import NAME, TINY, course, write


@pytest.fixture
def built(tmp_path: Path) -> Path:
    root = course(tmp_path)
    write(root)
    return root


def test_no_drift_after_a_build(built: Path) -> None:
    assert build.drift(root=built) == []
    shutil.rmtree(built / "build")
    assert build.drift(root=built) == []


def damage_source(data: bytes) -> bytes:
    return data.replace(b"The end.", b"The eNd.")


def damage_metadata(data: bytes) -> bytes:
    return data.replace(b'"points": 2', b'"points": 9')


def damage_kernel(data: bytes) -> bytes:
    return data.replace(b'"name": "python3"', b'"name": "python2"')


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damage_source, "The eNd."),
        (damage_metadata, "check-running_mean"),
        (damage_kernel, "notebook metadata"),
        (lambda data: data + b"\n", "from byte"),
        (lambda data: data.replace(b"\n", b"\r\n"), "from byte 1"),
        (lambda data: data[:-20], "not a readable notebook"),
        (lambda data: b"[]", "not a readable notebook"),
        (lambda data: b"", "not a readable notebook"),
    ],
)
def test_one_byte_of_drift_is_red(built: Path, damage: Callable[[bytes], bytes], words: str, cold: bool) -> None:
    path = built / "notebooks" / f"{NAME}.ipynb"
    good = path.read_bytes()
    assert damage(good) != good
    path.write_bytes(damage(good))
    if cold:
        shutil.rmtree(built / "build")
    found = build.drift(root=built)
    assert len(found) == 1 and found[0].startswith(f"notebooks/{NAME}.ipynb") and words in found[0]
    path.write_bytes(good)
    assert build.drift(root=built) == []


def test_a_stale_notebook_is_red(built: Path) -> None:
    unit = built / "grading" / "units" / TINY.name
    unit.write_text(unit.read_text("utf-8").replace("The end.", "The very end."), encoding="utf-8")
    found = build.drift(root=built)
    assert len(found) == 1 and "it has 'The end.', the unit gives 'The very end.'" in found[0]


def test_other_settings_are_drift_too(built: Path) -> None:
    settings = built / "grading" / "nbgrader_config.py"
    settings.write_text(settings.read_text("utf-8").replace("YOUR CODE HERE", "YOUR TURN"), encoding="utf-8")
    assert "YOUR CODE HERE" in build.drift(root=built)[0]


def test_a_damaged_cache_is_not_believed(built: Path) -> None:
    cached = [path for path in (built / "build" / "kvgrade").iterdir() if path.is_file()]
    assert len(cached) == 1
    cached[0].write_bytes(cached[0].read_bytes().replace(b"The end.", b"The eNd."))
    assert build.drift(root=built) == []


def test_missing_stray_and_table_drift(built: Path) -> None:
    notebook = built / "notebooks" / f"{NAME}.ipynb"
    shutil.copy(notebook, built / "notebooks" / "91_other.ipynb")
    notebook.unlink()
    table = built / "data" / "exercises.json"
    table.write_text(table.read_text("utf-8").replace('"minutes": 5', '"minutes": 6'), encoding="utf-8")
    text = "\n".join(build.drift(root=built))
    assert "90_tiny.ipynb is missing" in text and "91_other.ipynb has no unit" in text and "exercises.json" in text


def test_a_stranger_in_source_is_refused(built: Path) -> None:
    (built / "grading" / "source" / NAME / "answers.txt").write_text("42")
    with pytest.raises(RuntimeError, match=r"answers\.txt is not from a unit"):
        build.drift(root=built)
    with pytest.raises(RuntimeError, match=r"answers\.txt"):
        write(built)


def test_command_line(built: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # The commands work on the repository that kvgrade lies in; here that is the built course.
    find = units.find_units
    monkeypatch.setattr("kvgrade.cli.build.find_units", lambda wanted=None: find(wanted, built))
    monkeypatch.setattr(build, "find_units", lambda wanted=None, root=built: find(wanted, built))
    for name in ("write", "drift", "solved_notebook"):
        function = getattr(build, name)
        monkeypatch.setattr(build, name, lambda units=None, root=built, f=function: f(units, built))
    assert main(["build", "--check"]) == 0
    notebook = built / "notebooks" / f"{NAME}.ipynb"
    notebook.write_bytes(damage_source(notebook.read_bytes()))
    assert main(["build", "--check", "90"]) == 1
    assert "notebooks/90_tiny.ipynb differs" in capsys.readouterr().err
    assert main(["build"]) == 0 and main(["build", "--check"]) == 0
    assert main(["solved", "90", "-o", str(built / "out" / "solved.ipynb")]) == 0
    assert "np.cumsum" in (built / "out" / "solved.ipynb").read_text("utf-8")
    assert "built: 90_tiny" in capsys.readouterr().out
    assert main(["build", "99"]) == 1
    assert "the units are: 90_tiny" in capsys.readouterr().err
