"""The project's own files agree with each other: pyproject, constraints, environment.yml, Makefile, package, wheel."""

import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import kvlab
from helpers import ROOT, require
from kvlab import checksums, paths
from kvlab.cli.doctor import normal_name, read_pins

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
ALL = [*PROJECT["dependencies"], *(item for group in EXTRAS.values() for item in group)]
PINS = read_pins(ROOT / "constraints.txt")


def test_version_is_the_package_version() -> None:
    assert PROJECT["version"] == kvlab.__version__


def test_the_extras_are_the_promised_ones() -> None:
    assert set(EXTRAS) == {"api", "instructor", "fast", "tokenizers", "models", "site", "dev"}


@pytest.mark.parametrize("text", ALL)
def test_each_requirement_is_loose_and_its_pin_fits(text: str) -> None:
    requirement = Requirement(text)
    assert not any(part.operator in ("==", "~=", "===") for part in requirement.specifier), (
        "exact pins: constraints.txt"
    )
    assert requirement.specifier, "a bound is missing"
    pin = PINS[normal_name(requirement.name)]
    assert requirement.specifier.contains(pin), f"{requirement} and the pin {pin} exclude each other"


def test_constraints_hold_exact_public_versions_and_nothing_else() -> None:
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    for line in lines:
        name, version = line.split("==")
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name), line
        assert Version(version).local is None, f"{line}: a local version exists on one index only"
    assert len(PINS) == len(lines), "a package is pinned twice"
    assert Version(PINS["numpy"]).release[:2] == (2, 3)
    assert Version(PINS["sqlalchemy"]) < Version("2.1")
    assert PINS["torch"] == "2.13.0"


def test_every_pin_that_is_installed_here_accepts_the_first_python_3_11() -> None:
    """Debian 12 ships 3.11.2; pip would hide the reason behind a conflict of versions."""
    from importlib import metadata

    here = [item for item in metadata.distributions() if PINS.get(normal_name(item.metadata["Name"])) == item.version]
    assert len(here) > 50
    asked = {f"{item.metadata['Name']} {item.version}": item.metadata.get("Requires-Python") or "" for item in here}
    assert [name for name, text in asked.items() if not SpecifierSet(text).contains("3.11.0")] == []


def test_everything_installed_here_is_pinned_by_its_requirements() -> None:
    """The closure of all extras, walked through the installed metadata, is in constraints.txt."""
    from importlib import metadata

    todo = [
        Requirement(text) for text in [*PROJECT["dependencies"], *(item for group in EXTRAS.values() for item in group)]
    ]
    seen: set[tuple[str, str]] = set()
    missing = set()
    while todo:
        requirement = todo.pop()
        for extra in ["", *requirement.extras]:
            key = (normal_name(requirement.name), extra)
            if key in seen:
                continue
            seen.add(key)
            if key[0] not in PINS:
                missing.add(key[0])
            try:
                needs = metadata.requires(requirement.name) or []
            except metadata.PackageNotFoundError:
                continue  # an extra that is not installed here; it is walked where all extras are
            parsed = [Requirement(text) for text in needs]
            todo += [item for item in parsed if item.marker is None or item.marker.evaluate({"extra": extra})]
    assert not missing


def test_environment_yml_agrees_with_pyproject() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    conda = [item for item in environment["dependencies"] if isinstance(item, str)]
    (pip,) = [item["pip"] for item in environment["dependencies"] if isinstance(item, dict)]
    (python,) = [item for item in conda if item.startswith("python=")]
    assert Requirement(f"x{PROJECT['requires-python']}").specifier.contains(python.removeprefix("python="))
    assert "pip" in conda
    assert pip[0] == "-c constraints.txt"
    match = re.fullmatch(r"-e \.\[(.+)\]", pip[1])
    assert match and set(match.group(1).split(",")) == set(EXTRAS)
    assert len(pip) == 2, "packages belong in pyproject.toml"


def test_makefile_installs_every_extra() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (names,) = re.findall(r"^ALL_EXTRAS := (.+)$", text, re.M)
    assert set(names.split(",")) == set(EXTRAS)


def test_makefile_has_the_promised_targets() -> None:
    require("make")
    for target in ["lab", "test", "test-all", "check", "mutate", "build", "bench", "instructor", "clean", "help"]:
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_make_says_what_is_wrong_with_an_old_python(tmp_path: Path) -> None:
    require("make")
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    command = ["make", "lab", f"PYTHON={old}", "VENV=build/no-such-venv"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stdout
    assert not (ROOT / "build" / "no-such-venv").exists()


def test_make_says_that_a_python_is_missing() -> None:
    require("make")
    command = ["make", "lab", "PYTHON=no-such-python", "VENV=build/no-such-venv"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "'no-such-python' is missing or older" in done.stdout
    assert "not found" not in done.stderr


def test_make_says_how_to_start_over_after_a_failed_installation() -> None:
    require("make")
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as text:
        venv = Path(text)
        (venv / "bin").mkdir()
        (venv / ".made").touch()
        (venv / "bin" / "python").write_text("#!/bin/sh\necho the reason >&2; exit 1\n")
        (venv / "bin" / "python").chmod(0o755)
        command = ["make", "lab", f"VENV={venv.relative_to(ROOT)}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        left = sorted(path.name for path in venv.iterdir())
    assert done.returncode != 0
    assert "the reason" in done.stderr
    assert "make clean, then make lab PYTHON=" in done.stdout
    assert left == [".made", "bin"], "a failed installation counts as none"


@pytest.mark.parametrize("module", ["kvlab", "kvlab.cli.main", "kvlab.paths", "kvlab.checksums"])
def test_import_is_light(module: str) -> None:
    heavy = "{'torch', 'numpy', 'matplotlib', 'ipywidgets', 'IPython', 'papermill', 'kvgrade'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    env = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_never_imports_the_graders_side() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert not re.search(r"^\s*(import|from) kvgrade", path.read_text(encoding="utf-8"), re.M), path


def test_no_file_is_too_long() -> None:
    for folder in ["src", "grading/kvgrade", "tests", "benchmarks"]:
        for path in (ROOT / folder).rglob("*.py"):
            assert len(path.read_text(encoding="utf-8").splitlines()) <= 400, f"{path} is over 400 lines"


def test_the_repository_address_stands_in_one_place_and_the_readme_uses_it() -> None:
    address = PYPROJECT["tool"]["kvlab"]["repository"]
    assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", address)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for found in re.findall(r"github\.com/([\w.-]+/[\w.-]+)/(?:actions|blob|tree)", readme):
        assert f"https://github.com/{found}" == address


def test_paths_in_a_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paths.repo_root() == ROOT
    assert paths.data_dir() == ROOT / "data" == kvlab.data_dir()
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path / "cache"))
    assert paths.cache_dir() == tmp_path / "cache"
    assert paths.cache_dir().is_dir()
    monkeypatch.setenv("KVLAB_NOTEBOOKS", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError, match="KVLAB_NOTEBOOKS"):
        paths.notebooks_dir()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, unpacked as a plain install would be."""
    require("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-q"]
    done = subprocess.run([*command, "-w", str(folder), str(ROOT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_a_plain_install_holds_data_and_notebooks(installed: Path, tmp_path: Path) -> None:
    package = installed / "kvlab"
    for part in ["data", "notebooks", "src/kvlab"]:
        names = subprocess.run(["git", "ls-files", part], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        base = package if part == "src/kvlab" else package / part
        for name in names.splitlines():
            if (ROOT / name).exists():
                assert (base / Path(name).relative_to(part)).read_bytes() == (ROOT / name).read_bytes(), name
    assert not (installed / "kvgrade").exists()
    code = "import kvlab, kvlab.paths as p; print(p.repo_root(), kvlab.data_dir(), p.work_dir())"
    env = os.environ | {"PYTHONPATH": str(installed)}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["None", str(package / "data"), str(tmp_path / "work")]


def test_recorded_checksums_are_those_of_the_files() -> None:
    assert checksums.verify(ROOT / "data") == []


def test_checksums_notice_changed_missing_and_extra_files(tmp_path: Path) -> None:
    for name in ["a", "sub/b", "c"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    assert checksums.write(tmp_path) == 3
    assert checksums.verify(tmp_path) == []
    (tmp_path / "a").write_text("A")
    (tmp_path / "sub/b").unlink()
    (tmp_path / "d").write_text("d")
    first = "a is not the recorded file (its SHA-256 differs)."
    assert checksums.verify(tmp_path) == [first, "sub/b is missing.", "d is not recorded."]
    assert checksums.main(["--dir", str(tmp_path)]) == 1
    (tmp_path / checksums.NAME).write_text("{broken")
    with pytest.raises(ValueError, match="not readable JSON"):
        checksums.verify(tmp_path)
