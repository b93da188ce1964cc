"""`kvlab lab`: what it copies, what it leaves alone, and a real JupyterLab started on it."""

import html
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import ROOT, code_cell, write_notebook
from kvlab.cli.files import write_atomic
from kvlab.cli.jupyter import environment
from kvlab.cli.main import main

NAME = "01_kv_cache.ipynb"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A release of two notebooks in a folder of its own."""
    folder = tmp_path / "notebooks"
    for name in [NAME, "02_prefill_decode.ipynb"]:
        write_notebook(folder / name, [code_cell("a", f"print('{name} one')")])
    monkeypatch.setenv("KVLAB_NOTEBOOKS", str(folder))
    return folder


def prepare(work: Path) -> int:
    return main(["lab", "--prepare-only", "--dir", str(work)])


def test_copies_what_is_missing_and_says_nothing_the_second_time(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "my" / "work"
    assert prepare(work) == 0
    assert "copied" in capsys.readouterr().out
    assert (work / NAME).read_bytes() == (release / NAME).read_bytes()
    before = {path: path.stat().st_mtime_ns for path in work.glob("*.ipynb")}
    assert prepare(work) == 0
    assert capsys.readouterr().out == ""
    assert {path: path.stat().st_mtime_ns for path in work.glob("*.ipynb")} == before


def test_a_newer_release_replaces_only_what_the_learner_has_not_changed(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    prepare(work)
    write_notebook(work / NAME, [code_cell("a", "my work")])
    mine = (work / NAME).read_bytes()
    assert prepare(work) == 0
    capsys.readouterr()
    for name in [NAME, "02_prefill_decode.ipynb"]:
        write_notebook(release / name, [code_cell("a", f"print('{name} two')")])
    assert prepare(work) == 0
    out = capsys.readouterr().out
    assert (work / NAME).read_bytes() == mine
    assert f"{NAME}: a newer release exists" in out and "kvlab reset 01" in out
    assert (work / "02_prefill_decode.ipynb").read_bytes() == (release / "02_prefill_decode.ipynb").read_bytes()
    assert "02_prefill_decode.ipynb: updated" in out
    # The sentence comes back until the learner has taken the release, which keeps a copy.
    prepare(work)
    assert "a newer release exists" in capsys.readouterr().out
    assert main(["reset", "01", "--dir", str(work)]) == 0
    capsys.readouterr()
    prepare(work)
    assert capsys.readouterr().out == ""


def test_a_damaged_manifest_costs_nothing(release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = tmp_path / "work"
    prepare(work)
    write_notebook(work / NAME, [code_cell("a", "my work")])
    mine = (work / NAME).read_bytes()
    for text in ["{", "[]", '{"copied": 3}', '{"copied": {"x": 1}}', ""]:
        (work / ".kvlab" / "manifest.json").write_text(text)
        capsys.readouterr()
        assert prepare(work) == 0
        out = capsys.readouterr().out
        assert "manifest.json is damaged" in out and "was left as it is" in out
        assert (work / NAME).read_bytes() == mine
        assert (work / ".kvlab" / "manifest.damaged.json").read_text() == text
    assert "02_prefill_decode.ipynb" in json.loads((work / ".kvlab" / "manifest.json").read_text())["copied"]


def test_a_damaged_notebook_of_the_learner_is_left_and_named(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    prepare(work)
    (work / NAME).write_bytes(b'{"cells": [\xff')
    assert prepare(work) == 0
    assert "not a readable notebook" in capsys.readouterr().out
    assert (work / NAME).read_bytes() == b'{"cells": [\xff'


def test_a_damaged_release_copies_nothing(release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (release / "02_prefill_decode.ipynb").write_text("{}")
    assert prepare(tmp_path / "work") == 2
    assert "02_prefill_decode.ipynb is damaged" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc, where even root cannot make a folder")
def test_no_right_to_write_is_a_sentence(release: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert prepare(Path("/proc/kvlab")) == 2
    assert "Cannot write" in capsys.readouterr().err


def test_a_file_in_place_of_the_folder_is_a_sentence(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work").write_text("x")
    assert prepare(tmp_path / "work") == 2
    assert "is a file, not a folder" in capsys.readouterr().err


def test_a_failed_write_leaves_the_old_file_and_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def full(source: str, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kvlab.cli.files.os.replace", full)
    with pytest.raises(Exception, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["a.json"]


def test_a_port_in_use_copies_nothing(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "cache"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["lab", "--port", str(port), "--dir", str(tmp_path / "work")]) == 2
        assert f"Port {port} is in use" in capsys.readouterr().err
    assert main(["lab", "--port", "70000", "--dir", str(tmp_path / "work")]) == 2
    assert "70000 is no port" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


def test_a_changed_notebook_is_named_when_it_is_left_alone(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    prepare(work)
    write_notebook(work / NAME, [code_cell("a", "my work")])
    capsys.readouterr()
    assert prepare(work) == 0
    assert capsys.readouterr().out == f"{NAME}: yours is changed; it was left as it is.\n"


def test_the_folder_of_the_release_is_refused(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(release)
    for folder in [release, tmp_path / "link"]:
        assert prepare(folder) == 2
        assert "holds the released notebooks" in capsys.readouterr().err
    assert sorted(path.name for path in release.iterdir()) == [NAME, "02_prefill_decode.ipynb"]


@pytest.mark.parametrize("kind", ["long", "loop", "record is a file", "record is a folder", "release is a folder"])
def test_a_place_that_cannot_be_used_is_a_sentence_and_nothing_is_copied(
    release: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    work = tmp_path / ("x" * 300 if kind == "long" else "work")
    if kind == "loop":
        work.symlink_to(work)
    elif kind == "record is a file":
        work.mkdir()
        (work / ".kvlab").touch()
    elif kind == "record is a folder":
        (work / ".kvlab" / "manifest.json").mkdir(parents=True)
    elif kind == "release is a folder":
        (release / NAME).unlink()
        (release / NAME).mkdir()
    assert prepare(work) == 2
    expected = {"long": "name too long", "loop": "symbolic links", "record is a file": "Move it away"}
    expected |= {"record is a folder": "Move it away", "release is a folder": "cannot be read: Is a directory"}
    assert expected[kind] in capsys.readouterr().err
    assert list(tmp_path.glob("work/*.ipynb")) == []


def test_what_a_killed_write_left_is_removed_once_it_is_old(release: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    prepare(work)
    rests = [work / f".{NAME}.ab12_cd3.tmp", work / ".kvlab" / ".manifest.json.ab12_cd3.tmp"]
    others = [work / ".mine.tmp", work / f".{NAME}.zz12_cd3.tmp", work / "notes.tmp"]
    for path in rests + others:
        path.write_text("x")
        if path != others[1]:  # that one is young
            os.utime(path, (1, 1))
    prepare(work)
    assert [path.exists() for path in rests + others] == [False, False, True, True, True]


def test_an_update_goes_through_a_link(release: Path, tmp_path: Path) -> None:
    work, real = tmp_path / "work", tmp_path / "real.ipynb"
    prepare(work)
    (work / NAME).rename(real)
    (work / NAME).symlink_to(real)
    write_notebook(release / NAME, [code_cell("a", "print('two')")])
    assert prepare(work) == 0
    assert (work / NAME).is_symlink()
    assert real.read_bytes() == (release / NAME).read_bytes()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A real JupyterLab on a free port, as a learner starts it; gives its address and the learner's folder."""
    base = tmp_path_factory.mktemp("lab")
    write_notebook(base / "notebooks" / NAME, [code_cell("a", "1")])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = os.environ | {
        "KVLAB_NOTEBOOKS": str(base / "notebooks"),
        "KVLAB_CACHE": str(base / "cache"),
        "JUPYTER_TOKEN": "test-token",
        "JUPYTER_RUNTIME_DIR": str(base / "runtime"),
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = [sys.executable, "-m", "kvlab", "lab", "--no-browser", "--port", str(port), "--dir", str(base / "work")]
    with (base / "log").open("wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                get(address + "/api/status")
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, (base / "log").read_text()
                assert time.monotonic() < deadline, (base / "log").read_text()
                time.sleep(0.2)
        yield address, base / "work"
    finally:
        process.terminate()
        process.wait(timeout=20)


def get(url: str) -> str:
    request = urllib.request.Request(url, headers={"Authorization": "token test-token"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def test_the_server_runs_on_the_learners_folder(server: tuple[str, Path]) -> None:
    address, work = server
    assert "started" in json.loads(get(address + "/api/status"))
    names = [item["name"] for item in json.loads(get(address + "/api/contents"))["content"]]
    assert names == [NAME]
    assert (work / NAME).exists()


def test_whoever_begins_sees_the_first_notebook(server: tuple[str, Path]) -> None:
    request = urllib.request.Request(server[0] + "/", headers={"Authorization": "token test-token"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert urllib.parse.urlsplit(answer.geturl()).path == f"/lab/tree/{NAME}"


def test_the_page_hides_the_instructors_panels_and_asks_for_no_news(server: tuple[str, Path]) -> None:
    page = get(server[0] + "/lab")
    match = re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.S)
    assert match
    config = json.loads(html.unescape(match.group(1)))
    disabled = set(config["disabledExtensions"])
    nbgrader = {name for name in disabled if name.startswith("@jupyter/nbgrader:")}
    assert {name.split(":")[1] for name in nbgrader} == {
        "assignment-list",
        "course-list",
        "create-assignment",
        "formgrader",
        "menu",
    }
    assert "@jupyterlab/apputils-extension:announcements" in disabled
    assert config["news"]["disabled"] is True
    assert config["extensionManager"]["can_install"] is False
    assert {item["name"] for item in config["federated_extensions"]} >= {"@jupyter/nbgrader"}, "validation stays"
    settings = json.loads(get(server[0] + "/lab/api/settings/@jupyterlab/apputils-extension:notification"))
    assert settings["schema"]["properties"]["fetchNews"]["default"] == "false"
    assert json.loads(get(server[0] + "/lab/api/update")) == {"notification": None}


def test_the_formgrader_server_is_off(server: tuple[str, Path]) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        get(server[0] + "/formgrader")


def test_the_kernel_is_this_interpreter(server: tuple[str, Path]) -> None:
    specs = json.loads(get(server[0] + "/api/kernelspecs"))
    assert specs["default"] == "python3"
    assert specs["kernelspecs"]["python3"]["spec"]["argv"][0] == sys.executable


def test_a_terminal_in_jupyterlab_finds_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the environment was not activated."""
    monkeypatch.setenv("PATH", "/usr/bin")
    folders = environment(tmp_path)["PATH"].split(os.pathsep)
    assert folders[0] == str(Path(sys.executable).parent) and folders[-1] == "/usr/bin"
