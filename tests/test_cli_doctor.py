"""`kvlab doctor` and `kvlab models`: each bad state gives its line, and says what to do."""

import json
import os
import struct
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from helpers import ROOT
from kvlab import checksums
from kvlab.cli import doctor, models
from kvlab.cli.main import main


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pins of two packages that are here and one that is not, and matching needs."""
    path = tmp_path / "constraints.txt"
    path.write_text(f"# note\nnumpy=={metadata.version('numpy')}\ntqdm==0.1\nnot-here==1.0\n")
    monkeypatch.setattr(doctor, "constraints_file", lambda: path)
    needed = [Requirement("numpy>=1"), Requirement("tqdm>=1")]
    monkeypatch.setattr(doctor, "requirements", lambda: needed)
    return path


def statuses(findings: list[doctor.Finding]) -> list[str]:
    return [finding.status for finding in findings]


def test_old_python_fails() -> None:
    assert doctor.check_python((3, 10, 9)).status == "FAIL"
    assert doctor.check_python((3, 11, 0)).status == "ok"


def test_a_version_other_than_the_pin_is_a_warning(pins: Path) -> None:
    warning, fine = doctor.check_packages()
    assert warning.status == "warn" and "tqdm" in warning.text and "tested with 0.1" in warning.text
    assert "not-here" not in warning.text, "an extra that is not installed is no fault"
    assert fine.status == "ok" and "1 packages are as pinned" in fine.text


def test_missing_and_unfit_packages_fail(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pins.write_text("numpy==1\n")
    needed = [Requirement("numpy<0.1"), Requirement("no-such-package-here")]
    monkeypatch.setattr(doctor, "requirements", lambda: needed)
    findings = [finding for finding in doctor.check_packages() if finding.status == "FAIL"]
    assert ["numpy" in findings[0].text, "no-such-package-here is missing" in findings[1].text] == [True, True]
    assert all("make lab" in finding.advice for finding in findings)


def test_a_local_build_of_a_pinned_version_is_the_pinned_version(pins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        metadata = {"Name": "torch"}  # noqa: RUF012 - stands for a distribution
        version = "2.13.0+cpu"

    pins.write_text("torch==2.13.0\n")
    monkeypatch.setattr(doctor.metadata, "distributions", lambda: [Fake()])
    monkeypatch.setattr(doctor, "requirements", lambda: [Requirement("torch>=2")])
    assert statuses(list(doctor.check_packages())) == ["ok"]


def test_changed_data_fails_and_unrecorded_data_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "data_dir", lambda: tmp_path)
    (tmp_path / "a").write_text("1")
    assert statuses(list(doctor.check_data())) == ["FAIL"]
    checksums.write(tmp_path)
    assert statuses(list(doctor.check_data())) == ["ok"]
    (tmp_path / "b").write_text("1")
    assert statuses(list(doctor.check_data())) == ["warn"]
    (tmp_path / "a").write_text("2")
    failed, warned = doctor.check_data()
    assert (failed.status, warned.status) == ("FAIL", "warn")
    assert "git checkout -- data" in failed.advice


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc, where even root cannot make a file")
def test_a_folder_without_write_permission_fails() -> None:
    (finding,) = doctor.check_work(Path("/proc/kvlab/work"))
    assert finding.status == "FAIL" and finding.advice


def test_a_name_that_the_system_refuses_is_a_line_of_the_report(tmp_path: Path) -> None:
    (finding,) = doctor.check_work(tmp_path / ("x" * 300))
    assert finding.status == "FAIL" and "name too long" in finding.text


def test_data_that_cannot_be_read_is_a_line_of_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(folder / "a"))

    monkeypatch.setattr(doctor, "data_dir", lambda: tmp_path)
    monkeypatch.setattr(checksums, "verify", refuse)
    (finding,) = doctor.check_data()
    assert finding.status == "FAIL" and "Permission denied" in finding.text


def test_any_other_refusal_of_the_system_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "data_dir", lambda: tmp_path)
    (tmp_path / "primer" / "target" / "model.safetensors").mkdir(parents=True)
    assert main(["models"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"kvlab models: Cannot use {tmp_path}") and "Is a directory" in error


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "kvlab", "models"]
    env = os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_the_command_exits_1_when_a_line_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], pins: Path
) -> None:
    monkeypatch.setattr(doctor, "data_dir", lambda: tmp_path / "data")
    (tmp_path / "data").mkdir()
    checksums.write(tmp_path / "data")
    assert main(["doctor", "--dir", str(tmp_path / "work")]) == 0
    lines = capsys.readouterr().out.splitlines()
    subjects = {line.split()[1] for line in lines if line.startswith(("ok", "warn"))}
    assert subjects == {"python", "packages", "nbgrader", "device", "memory", "work", "disk", "data"}
    assert not (tmp_path / "work").exists()
    (tmp_path / "data" / checksums.NAME).unlink()
    assert main(["doctor", "--dir", str(tmp_path / "work")]) == 1
    lines = capsys.readouterr().out.splitlines()
    (bad,) = [n for n, line in enumerate(lines) if line.startswith("FAIL")]
    assert "->" in lines[bad + 1]


def write_weights(path: Path, rows: int, columns: int, cut: int = 0) -> None:
    size = 2 * rows * columns
    header = json.dumps({"w": {"dtype": "F16", "shape": [rows, columns], "data_offsets": [0, size]}}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(size - cut))


def test_on_colab_its_own_packages_are_not_judged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """There the course is on the path and not installed, and what the first cell did has been said by it."""
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    doctor.show()
    lines = [line for line in capsys.readouterr().out.splitlines() if "packages" in line or "nbgrader" in line]
    assert len(lines) == 1 and lines[0].startswith("ok    packages    Colab's own")


def test_models_lists_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "data_dir", lambda: tmp_path)
    assert main(["models"]) == 2
    write_weights(tmp_path / "primer" / "target" / "model.safetensors", 1000, 1234)
    write_weights(tmp_path / "primer" / "draft" / "model.safetensors", 10, 3)
    capsys.readouterr()
    assert main(["models"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:3]]
    assert [row[:5] for row in rows] == [
        ["primer", "1,234,000", "2.5", "MB", "MIT"],
        ["primer-draft", "30", "0.0", "MB", "MIT"],
    ]
    assert main(["models", "add", "gpt-9"]) == 2
    assert "There is no model 'gpt-9'. Here: primer, primer-draft." in capsys.readouterr().err
    assert main(["models", "add", "primer"]) == 0


def test_cut_weights_are_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "data_dir", lambda: tmp_path)
    weights = tmp_path / "primer" / "target" / "model.safetensors"
    write_weights(weights, 10, 10, cut=5)
    assert main(["models"]) == 2
    assert "is damaged: the file is cut short" in capsys.readouterr().err
    weights.write_bytes(b"\x00\x01")
    assert main(["models"]) == 2
    assert "is damaged" in capsys.readouterr().err


def test_parameter_counts_of_the_real_primer_agree_with_safetensors() -> None:
    from safetensors import safe_open

    found = sorted((ROOT / "data" / "primer").glob("*/*.safetensors"))
    assert found, "data/primer holds no weights"
    for path in found:
        with safe_open(path, framework="np") as file:
            sizes = [file.get_slice(key).get_shape() for key in file.keys()]  # noqa: SIM118 - safe_open is no dict
        assert models.parameter_count(path) == sum(_product(shape) for shape in sizes)


def _product(shape: list[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
