"""The bootstrap cell and `kvlab.colab`, on a stand-in for a Colab machine: nothing that is there changes."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import colab_machine
from colab_machine import Machine
from helpers import ROOT, require
from kvgrade import colab as builder
from kvgrade.units import UnitError, find_units, read_unit
from kvlab import colab

UNITS = [path.stem for path in find_units()]
RELEASED = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
EXTRAS = {"04_prompt_caching": ["api"]}


def bootstrap(unit: str) -> str:
    """The first code cell of a released notebook."""
    cells = nbformat.read(ROOT / "notebooks" / f"{unit}.ipynb", as_version=4).cells
    return str(next(cell.source for cell in cells if cell.cell_type == "code"))


# --- one address -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", RELEASED)
def test_badge_and_bootstrap_come_from_the_one_address(unit: str) -> None:
    address = builder.repository(ROOT)
    text = "".join(nbformat.read(ROOT / "notebooks" / f"{unit}.ipynb", as_version=4).cells[0].source)
    assert builder.badge(address, unit) in text
    assert bootstrap(unit) == builder.bootstrap(address, *EXTRAS.get(unit, []))
    assert address not in (ROOT / "grading" / "units" / f"{unit}.py").read_text(encoding="utf-8")


def test_another_address_goes_into_badge_and_cell(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.kvlab]\nrepository = "https://github.com/some-one/else"\n')
    unit = builder.filled(read_unit(find_units(["04"])[0]), tmp_path)
    texts = [cell.source for cell in unit.cells[:2]]
    assert "/github/some-one/else/blob/main/notebooks/04_prompt_caching.ipynb)" in texts[0]
    assert '"https://github.com/some-one/else"' in texts[1] and 'prepare("api")' in texts[1]
    assert "kvlab-course/kvlab" not in "".join(texts)


def test_a_mark_that_is_written_otherwise_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "01_x.py"
    path.write_text("# %% [markdown]\n# {{colab bagde}}\n")
    with pytest.raises(UnitError, match="colab bagde"):
        builder.filled(read_unit(path), ROOT)


def test_the_cell_is_short_and_parses() -> None:
    text = bootstrap("01_kv_cache")
    ast.parse(text)
    assert len(text.splitlines()) <= 30 and max(map(len, text.splitlines())) <= 130


# --- what is installed -------------------------------------------------------------------------------------------------


def test_what_notebooks_import_is_what_is_asked_for() -> None:
    """Imports of kvlab at any level, without its commands: each package of pyproject's dependencies among them."""
    imported = set()
    for path in (ROOT / "src" / "kvlab").rglob("*.py"):
        if path.relative_to(ROOT / "src" / "kvlab").parts[0] in ("cli", "colab.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            imported |= {name.split(".")[0] for name in names}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    dependencies = set(re.findall(r'^  "([A-Za-z0-9]+)[<>]', text.split("[project.optional-dependencies]")[0], re.M))
    assert dependencies & imported == set(colab.NEEDED)


def test_requirements_are_those_of_pyproject() -> None:
    found = {item.name: str(item.specifier) for item in colab.requirements(ROOT / "pyproject.toml", ["api"])}
    assert set(found) == {*colab.NEEDED, "anthropic", "fastapi", "openai", "uvicorn"}
    assert found["ipywidgets"] == ">=7.7"
    with pytest.raises(ValueError, match=r"no extra 'apis'; there are: api, "):
        colab.requirements(ROOT / "pyproject.toml", ["apis"])


COLAB = {  # versions of Colab's runtime 2026.01: docs/colab.md has the source
    "ipywidgets": "7.7.1",
    "jinja2": "3.1.6",
    "matplotlib": "3.10.0",
    "numpy": "2.0.2",
    "psutil": "5.9.5",
    "safetensors": "0.7.0",
    "tokenizers": "0.22.2",
    "torch": "2.9.0+cpu",
    "tqdm": "4.67.1",
    "fastapi": "0.123.10",
    "openai": "2.15.0",
    "uvicorn": "0.40.0",
}


def test_the_versions_that_colab_had_in_january_2026_are_new_enough() -> None:
    wanted = colab.requirements(ROOT / "pyproject.toml", ["api"])
    assert colab.complaints(wanted, COLAB) == []
    assert [item.name for item in wanted if item.name not in COLAB] == ["jupyterquiz", "anthropic"]


def test_old_and_missing_packages_are_told_in_a_sentence_each() -> None:
    wanted = colab.requirements(ROOT / "pyproject.toml")
    have = {name: version for name, version in COLAB.items() if name != "torch"} | {"numpy": "1.25.2"}
    assert colab.complaints(wanted, have) == [
        "numpy 1.25.2 is here and the course asks for numpy>=1.26: it stays, and a cell may fail.",
        "torch is missing, which Colab brings itself: choose Runtime → Disconnect and delete runtime.",
    ]


def test_every_version_is_held_as_it_is() -> None:
    held = colab.constraints({"torch": "2.9.0+cpu", "numpy": "2.0.2", "odd": "not a version"})
    assert held == "numpy==2.0.2\ntorch==2.9.0+cpu\n"


# --- the machine -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> str:
    require("git")
    return colab_machine.serve(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip finds packages in: what Colab lacks, and newer versions of what it has, as a bait."""
    for name in ("jupyterquiz", "anthropic"):
        require(name)
    folder = tmp_path_factory.mktemp("wheels")
    for name in ("jupyterquiz", "anthropic"):
        colab_machine.wheel(name, folder)
    for name in ("numpy", "ipywidgets", "tqdm", "psutil", "openai"):
        colab_machine.made_up_wheel(name, "999.0", folder)
    return folder


@pytest.fixture
def machine(served: str, wheels: Path, tmp_path: Path) -> Machine:
    return colab_machine.machine(tmp_path, served, wheels)


@pytest.mark.slow
def test_the_cell_installs_what_is_missing_and_changes_nothing(machine: Machine) -> None:
    before = machine.freeze()
    assert not {"jupyterquiz", "anthropic", "kvlab"} & set(before)
    after_it = "import kvlab, os, jupyterquiz; print(kvlab.data_dir()); os.system('python3 -m kvlab --help > helped')"
    done = machine.run(f"{bootstrap('01_kv_cache')}\n{after_it}", PATH=f"{machine.python.parent}:{machine.env['PATH']}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == [str(machine.content / "kvlab-course" / "data")]
    assert (machine.content / "helped").read_text(), "`!python -m kvlab` works in a cell"
    first = machine.freeze()
    assert set(first) - set(before) == {"jupyterquiz"} and before.items() <= first.items()

    done = machine.run(bootstrap("04_prompt_caching"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    second = machine.freeze()
    assert set(second) - set(first) == {"anthropic"} and first.items() <= second.items()


@pytest.mark.slow
def test_a_second_run_needs_neither_network_nor_time(machine: Machine, tmp_path: Path) -> None:
    assert machine.run(bootstrap("01_kv_cache")).returncode == 0
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix != ".pyc"}
    twice = (
        f"{bootstrap('01_kv_cache')}\nbefore = list(sys.path)\n{bootstrap('01_kv_cache')}\nassert sys.path == before"
    )
    offline = {"GIT_CONFIG_KEY_0": f"url.{(tmp_path / 'gone').as_uri()}.insteadOf", "PIP_FIND_LINKS": ""}
    done = machine.run(twice, **offline)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    left = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.suffix != ".pyc"}
    assert {path for path in left if path.is_file() and files.get(path) != left[path]} == set()


def test_no_network_is_one_sentence_and_leaves_nothing(machine: Machine, tmp_path: Path) -> None:
    gone = {"GIT_CONFIG_KEY_0": f"url.{(tmp_path / 'gone').as_uri()}.insteadOf"}
    done = machine.run(bootstrap("01_kv_cache"), **gone)
    address = builder.repository(ROOT)
    last = done.stderr.strip().splitlines()[-1]
    assert last == f"RuntimeError: {address} could not be fetched: check the network, then run this cell again"
    assert list(machine.content.iterdir()) == []


@pytest.mark.slow
def test_a_fetch_that_was_cut_short_is_started_again(machine: Machine) -> None:
    half = machine.content / "kvlab-course.part"
    (half / "src" / "kvlab").mkdir(parents=True)
    (half / "src" / "kvlab" / "__init__.py").write_text("raise SystemError\n")
    done = machine.run(f"{bootstrap('01_kv_cache')}\nimport kvlab\nkvlab.data_dir()")
    assert (done.returncode, done.stderr) == (0, "")
    assert not half.exists() and (machine.content / "kvlab-course" / "data").is_dir()


@pytest.mark.slow
def test_packages_that_cannot_be_had_are_one_sentence_and_change_nothing(machine: Machine, tmp_path: Path) -> None:
    before = machine.freeze()
    empty = tmp_path / "empty"
    empty.mkdir()
    colab_machine.made_up_wheel("jupyterquiz", "3.0", empty, "tqdm>=999")
    colab_machine.made_up_wheel("tqdm", "999.0", empty)
    done = machine.run(bootstrap("01_kv_cache"), PIP_FIND_LINKS=str(empty))
    assert done.returncode == 0
    assert done.stdout == "Could not install jupyterquiz>=2.9: check the network, then run this cell again.\n"
    assert machine.freeze() == before


def test_elsewhere_a_kernel_without_the_course_is_told_what_to_do(machine: Machine) -> None:
    code = f"import sys; sys.modules.pop('google.colab')\n{bootstrap('01_kv_cache')}"
    done = machine.run(code)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("RuntimeError: this kernel has no kvlab: start with `make lab`, or")


def test_prepare_outside_a_clone_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colab, "repo_root", lambda: None)
    with pytest.raises(ValueError, match="in a clone of the course"):
        colab.prepare()


# --- notebooks on the machine ------------------------------------------------------------------------------------------


def run_all(machine: Machine, unit: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A released notebook, executed by papermill with a kernel on the machine. Returns it with its outputs."""
    papermill = pytest.importorskip("papermill")
    kernels = machine.content.parent / "jupyter"
    (kernels / "kernels" / "python3").mkdir(parents=True)
    argv = [str(machine.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Colab", "language": "python"}
    (kernels / "kernels" / "python3" / "kernel.json").write_text(json.dumps(spec))
    for name in ("PYTHONPATH", "KVLAB_STRICT", "NBGRADER_EXECUTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {**machine.env, "JUPYTER_PATH": str(kernels)}.items():
        monkeypatch.setenv(name, value)
    source, output = ROOT / "notebooks" / f"{unit}.ipynb", machine.content / "out.ipynb"
    papermill.execute_notebook(
        str(source), str(output), {"FAST": True}, cwd=str(machine.content), progress_bar=False, kernel_name="python3"
    )
    return nbformat.read(output, as_version=4)


def assert_ran_on_the_machine(machine: Machine, notebook: Any) -> None:
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    assert [out for out in outputs if out.output_type == "error"] == []
    assert any("image/png" in out.get("data", {}) for out in outputs)
    assert (machine.content / "kvlab-course" / "data").is_dir()


@pytest.mark.slow
def test_a_notebook_runs_there(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = machine.freeze()
    assert_ran_on_the_machine(machine, run_all(machine, "01_kv_cache", monkeypatch))
    assert set(machine.freeze()) - set(before) == {"jupyterquiz"} and before.items() <= machine.freeze().items()


OLD = {  # Colab's own versions of the kernel and of the widgets, from the same list
    "widgets": ["--no-deps", "ipywidgets==7.7.1", "ipython_genutils==0.2.0"],
    "kernel": [
        "ipywidgets==7.7.1",
        "ipython==7.34.0",
        "ipykernel==6.17.1",
        "traitlets==5.7.1",
        "jupyter_client==7.4.9",
    ],
}


@pytest.fixture(scope="session")
def old_packages(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Gives a folder with Colab's old versions, fetched from the index once; skips where there is no network."""

    def fetch(which: str) -> Path:
        folder = ROOT / "build" / f"colab-{which}"
        if not folder.is_dir():
            part = tmp_path_factory.mktemp("old") / "packages"
            command = [sys.executable, "-m", "pip", "install", "-q", "--target", str(part), *OLD[which]]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{OLD[which][-1]} and the like could not be fetched: no package index is in reach")
            shutil.copytree(part, folder, dirs_exist_ok=True)
        return folder

    return fetch


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("unit", UNITS)
def test_every_notebook_runs_there_with_colabs_old_kernel_and_widgets(
    unit: str, served: str, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old_packages: Any
) -> None:
    machine = colab_machine.machine(tmp_path, served, wheels, old_packages("kernel"))
    before = machine.freeze()
    assert (before["ipywidgets"], before["ipython"], before["ipykernel"]) == ("7.7.1", "7.34.0", "6.17.1")
    assert_ran_on_the_machine(machine, run_all(machine, unit, monkeypatch))
    assert before.items() <= machine.freeze().items()


@pytest.mark.slow
def test_every_widget_works_with_the_ipywidgets_of_colab(old_packages: Any) -> None:
    paths = [old_packages("widgets"), ROOT / "src", ROOT / "tests", *filter(None, sys.path)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, str(ROOT / "tests" / "all_widgets.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout[done.stdout.rindex('{"version"') :])
    assert report["version"] == "7.7.1"
    for name, state in report["widgets"].items():
        assert state["panel"] and state["moved"] >= 1, name
        assert "does not work" not in state["message"], name
