"""What stands below the errors that a learner meets: one sentence with the next step, in every notebook."""

import builtins
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import torch
from nbclient import NotebookClient

import kvlab
from helpers import ROOT
from kvlab import next_step
from kvlab.cli.jupyter import write_kernelspec

RELEASED = sorted((ROOT / "notebooks").glob("*.ipynb"))
UNITS = [path for path in RELEASED if not path.stem.startswith("00")]
every_notebook = pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
every_unit = pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)


def code(path: Path) -> list[str]:
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def stops(source: str, names: dict[str, Any]) -> BaseException | None:
    """The error that ends a cell, or None."""
    try:
        exec(compile(source, "cell", "exec"), names)
    except Exception as error:
        return error
    return None


# --- restart, order, deleted variables ---------------------------------------------------------------------------------


@every_notebook
def test_after_a_restart_every_cell_says_to_run_the_cells_above(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell in an empty kernel: what leans on a cell above stops with a NameError, and the hint knows the name."""
    monkeypatch.setenv("JPY_SESSION_NAME", str(path))  # as JupyterLab says it: two notebooks have a cell in common
    start = next(i for i, source in enumerate(code(path)) if "\nimport kvlab\n" in source)
    explained = 0
    for source in code(path)[start + 1 :]:
        error = stops(source, {})
        if error is not None:
            assert isinstance(error, NameError), f"{type(error)} from {source[:80]}"
            told = next_step.next_step(error, [source])
            assert told.startswith(f"`{error.name}` comes from another cell: run the cells above"), source
            explained += 1
    assert explained >= 5


def missing(name: str, *ran: str) -> str:
    """What is said about a name without a value in the last of these cells."""
    return next_step.next_step(NameError(f"name '{name}' is not defined", name=name), ran)


def test_a_name_that_no_cell_defines_gets_no_hint() -> None:
    setup = code(UNITS[0])[2]
    assert missing("modle", setup, "modle") == "" and missing("modle") == ""
    assert next_step.next_step(UnboundLocalError("model"), [setup]) == ""


def only_elsewhere(unit: Path) -> set[str]:
    """The names that other notebooks define, and this one does not."""
    own = {name for source in code(unit) for name in next_step.names_of(source)}
    return {name for path in UNITS for source in code(path) for name in next_step.names_of(source)} - own


@every_unit
def test_only_the_names_of_this_notebook_come_from_another_cell(path: Path) -> None:
    """A name of another notebook is no reason to run the cells above."""
    setup, names = code(path)[2], only_elsewhere(path)
    assert len(names) > 100
    assert [name for name in sorted(names)[::10] if "another cell" in missing(name, setup, "own + cell")] == []
    assert "another cell" in missing("model", setup, "own + cell")


def test_what_is_known_about_the_notebook_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    start, _, setup, *rest = code(UNITS[0])
    assert missing("prompt_len", start, "prompt_len") == "", "the first cell is the same in all notebooks"
    assert "another cell" in missing("prompt_len", start, setup, "prompt_len")
    first = next(source for source in rest if "prompt_len" in next_step.names_of(source))
    assert missing("prompt_len", start, setup, first) == "", "a cell further down is not above"
    assert missing("mine", "mine = 1", "mine") != "", "a cell that was run counts, whoever wrote it"
    assert missing("mine", "mine += 1", "mine += 1") == "", "the same cell again is no other cell"
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/work/01_kv_cache (1).ipynb")
    assert "another cell" in missing("prompt_len", "prompt_len")
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/work/mine.ipynb")
    assert missing("prompt_len", "prompt_len") == ""


def test_a_module_that_is_not_imported_and_words_of_other_languages() -> None:
    setup = code(UNITS[0])[2]
    assert missing("time", setup, "time.time()") == "`time` is not imported in this notebook: `import time`."
    assert missing("plt", setup, "plt") == "`plt` is not imported in this notebook: `import matplotlib.pyplot as plt`."
    assert "another cell" in missing("math", setup, "math.pi"), "the set-up cell imports it"
    assert missing("time", "time.time()") == "", "some notebook that is not known may import it"
    assert missing("queue", setup, "queue") == "", "a module's name that is more often a variable's"
    for name in ("none", "true", "false"):
        assert missing(name, setup, f"x = {name}") == missing(name) == f"Python writes `{name.title()}`."


def test_names_of_a_cell() -> None:
    source = "import a.b as c\nfrom d import e\nf = g = 1\ndef h(i):\n    j = 1\nfor k in l:\n    pass\nwith m as n: pass\no[1] = p"
    assert next_step.names_of(source) == {"c", "e", "f", "g", "h", "k", "n"}
    assert next_step.names_of("%matplotlib inline") == frozenset()


def test_without_notebooks_or_with_a_damaged_one_the_error_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVLAB_NOTEBOOKS", str(tmp_path))
    (tmp_path / "01.ipynb").write_text("{")
    assert missing("model", code(UNITS[0])[-1]) == ""
    monkeypatch.setenv("KVLAB_NOTEBOOKS", str(tmp_path / "none"))
    assert missing("model", code(UNITS[0])[-1]) == ""


# --- devices and memory ------------------------------------------------------------------------------------------------


@pytest.fixture
def imports(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs a notebook's parameters and imports with other parameters; gives the error that stopped them."""
    monkeypatch.setenv("KVLAB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    threads = torch.get_num_threads()
    sources = code(path)
    at = next(i for i, source in enumerate(sources) if source.startswith("DEVICE = "))

    def run(**parameters: object) -> BaseException | None:
        names: dict[str, Any] = {}
        exec(sources[at], names)
        names |= parameters
        try:
            return stops(sources[at + 1], names)
        finally:
            if "running" in names:
                names["running"].close()

    yield run
    torch.set_num_threads(threads)


@every_unit
def test_a_device_that_is_not_there_is_told_with_what_to_write_instead(imports: Any) -> None:
    error = imports(DEVICE="cuda:7")
    assert isinstance(error, ValueError)
    assert re.search(r"device 'cuda:7' was asked for, but .* Use 'auto' or 'cpu'", str(error))
    assert "use 'auto', 'cpu'" in str(imports(DEVICE="gpu"))


@every_unit
def test_a_model_that_is_not_there_is_told_with_how_to_get_it(imports: Any) -> None:
    assert "run `kvlab models add smollm2` first" in str(imports(MODEL="smollm2"))
    assert "there is no model 'primmer': use one of primer" in str(imports(MODEL="primmer"))
    offline = imports(MODEL="nobody/nothing")
    assert isinstance(offline, ValueError)
    assert re.search(r"pip install huggingface_hub|network|path of a folder", str(offline)), str(offline)


@every_unit
def test_a_full_gpu_is_told_with_what_to_do(path: Path, imports: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **kwargs: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    monkeypatch.setattr(kvlab, "load", full, raising=False)
    error = imports()
    assert isinstance(error, torch.OutOfMemoryError)
    assert next_step.next_step(error) == (
        'the GPU is full: restart the kernel, write DEVICE = "cpu" into the parameters cell, and run all cells.'
    )


def test_full_memory_mixed_devices_and_no_network() -> None:
    import httpx
    import openai

    host_full = RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")
    mixed = RuntimeError(
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    )
    full = next_step.next_step(MemoryError())
    assert full.startswith("not enough memory for what this line asks for: a smaller array? Else close other notebooks")
    assert full == next_step.next_step(host_full)
    assert "`a.to(b.device)`" in next_step.next_step(mixed)
    request = httpx.Request("POST", "https://api.example.org")
    for error in (openai.APIConnectionError(request=request), httpx.ConnectError("no"), ConnectionRefusedError()):
        assert "without LIVE = True" in next_step.next_step(error)


def test_an_error_of_the_learners_own_code_gets_no_hint() -> None:
    for error in (ValueError("x"), RuntimeError("x"), ZeroDivisionError(), KeyError("model"), NotImplementedError()):
        assert next_step.next_step(error) == ""


# --- packages ----------------------------------------------------------------------------------------------------------


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Makes `import package` fail as it does where the package is missing."""
    original = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_a_missing_package_of_the_course_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("torch", "matplotlib", "tokenizers"):
        with monkeypatch.context() as patch:
            without(patch, package)
            error = stops(f"import {package}", {"__builtins__": builtins})
        assert isinstance(error, ModuleNotFoundError)
        assert next_step.next_step(error).startswith(f"{package} is missing in this kernel: choose the kernel of")
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    assert "run the first code cell" in next_step.next_step(ModuleNotFoundError("torch", name="torch"))
    assert next_step.next_step(ModuleNotFoundError("my_module", name="my_module")) == ""


@pytest.mark.parametrize("package", ["anthropic", "openai", "fastapi", "uvicorn"])
def test_notebook_04_says_how_to_get_its_packages(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    original = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == package else original(name, *a))
    from kvlab.providers.errors import need

    with pytest.raises(ImportError, match=f"the package {package} is not installed: pip install"):
        need(package)
    text = "\n".join(code(ROOT / "notebooks" / "04_prompt_caching.ipynb"))
    assert "clients(False, server)" in text, "the imports cell asks for both SDKs"


# --- in a kernel -------------------------------------------------------------------------------------------------------


def run_cells(folder: Path, sources: list[str], lab: bool, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The outputs of the last cell, run in a kernel as `kvlab lab` starts it, or in a plain one."""
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))
    if lab:
        write_kernelspec(folder / "data")
        monkeypatch.setenv("JUPYTER_PATH", str(folder / "data"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    client = NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True)
    client.execute()
    return list(notebook.cells[-1].outputs)


@pytest.mark.slow
@pytest.mark.parametrize("lab", [True, False], ids=["kvlab lab", "another front end"])
def test_the_hint_stands_below_the_traceback(lab: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the course's own JupyterLab even the first cell after a restart is explained."""
    before = [] if lab else ["from kvlab import next_step\nnext_step.explain_errors()\nnext_step.explain_errors()"]
    check = next(source for source in code(UNITS[0]) if "check.exercise(" in source)
    error, hint = run_cells(tmp_path, [*before, check], lab, monkeypatch)
    assert error.output_type == "error" and error.ename == "NameError" and len(error.traceback) >= 2
    assert hint.output_type == "stream" and hint.name == "stdout"
    assert re.fullmatch(r"Next step: `\w+` comes from another cell: run the cells above first, Run .*\.\n", hint.text)


@pytest.mark.slow
def test_a_deleted_variable_is_explained_and_a_right_cell_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = ["model = 1", "model", "del model\nmodel"]
    assert len(run_cells(tmp_path, sources[:2], True, monkeypatch)) == 1
    _, hint = run_cells(tmp_path, sources, True, monkeypatch)
    assert "`model` comes from another cell" in hint.text


def test_outside_ipython_nothing_happens(capsys: pytest.CaptureFixture[str]) -> None:
    next_step.explain_errors()
    next_step.after_cell(SimpleNamespace(error_in_exec=None))
    next_step.after_cell(SimpleNamespace(error_in_exec=ValueError("x")))
    assert capsys.readouterr().out == ""
