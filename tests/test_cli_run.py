"""`kvlab run`: executes copies, checks parameters first, reports time, memory and the first error."""

import ast
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from helpers import code_cell, write_notebook
from kvlab.cli.main import main

PARAMETERS = code_cell("p", 'SEED = 0\nFAST = False\nMODEL = "primer"\nRATE = 0.5', tags=["parameters"])


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KVLAB_NOTEBOOKS", str(tmp_path / "notebooks"))
    return tmp_path


def add(course: Path, unit: str, *sources: str, first: dict[str, Any] = PARAMETERS) -> Path:
    cells = [first, *(code_cell(f"c{n}", source) for n, source in enumerate(sources))]
    return write_notebook(course / "notebooks" / f"{unit}.ipynb", cells)


def run(course: Path, *arguments: str) -> int:
    return main(["run", "--output", str(course / "out"), *arguments])


def printed(course: Path, unit: str) -> str:
    notebook = json.loads((course / "out" / f"{unit}.ipynb").read_text())
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return "".join("".join(output.get("text", "")) for output in outputs)


def test_parameters_reach_the_kernel_which_is_this_interpreter(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = add(course, "01_a", "import sys; print(SEED + 1, FAST, MODEL + '!', RATE * 2, sys.executable)")
    before = source.read_bytes()
    assert run(course, "1", "-p", "SEED", "5", "--fast", "-p", "MODEL", "7", "-p", "RATE", "1") == 0
    assert printed(course, "01_a") == f"6 True 7! 2.0 {sys.executable}\n"
    assert source.read_bytes() == before
    out = capsys.readouterr().out
    assert "01_a" in out and out.split("peak MB")[1].split()[4] == "ok"


def test_parameters_are_those_that_papermill_finds(course: Path) -> None:
    from papermill import inspect_notebook

    from kvlab.cli.parameters import defaults

    source = add(course, "01_a", first=code_cell("p", "A = -1\nB: str = 'x'  # why\nC = [1, 2]\n", tags=["parameters"]))
    expected = {name: ast.literal_eval(item["default"]) for name, item in inspect_notebook(str(source)).items()}
    assert defaults(source) == expected == {"A": -1, "B": "x", "C": [1, 2]}
    odd = add(course, "02_b", first=code_cell("p", "A = B = len('abc')\nA += 1\nimport os", tags=["parameters"]))
    assert defaults(odd) == {"A": "len('abc')", "B": "len('abc')"}
    assert defaults(add(course, "03_c", first=code_cell("p", "A = 1"))) == {}


def test_a_parameters_cell_that_is_no_python_is_named(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(course, "01_a", first=code_cell("p", "%matplotlib inline\nA = 1", tags=["parameters"]))
    assert run(course, "-p", "A", "2") == 2
    assert "The parameters cell of 01_a.ipynb is not plain Python" in capsys.readouterr().err


def test_a_parameters_cell_that_no_file_can_hold_is_named(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(course, "01_a", first=code_cell("p", "A = '\ud800'", tags=["parameters"]))  # a lone surrogate
    assert run(course, "-p", "A", "2") == 2
    assert "The parameters cell of 01_a.ipynb is not plain Python" in capsys.readouterr().err


def test_what_a_kernel_leaves_among_temporary_files_is_gone(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    add(course, "01_a", "import tempfile; print(tempfile.mkdtemp())")
    assert run(course) == 0
    made = Path(printed(course, "01_a").strip())
    assert made.parent.parent == tmp_path / "tmp" and not made.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-p", "SEDE", "1"], "No chosen notebook has a parameter 'SEDE'. Parameters: FAST, MODEL, RATE, SEED."),
        (["-p", "SEED", "one"], "SEED is a whole number, not 'one'"),
        (["-p", "FAST", "maybe"], "FAST is true or false, not 'maybe'"),
        (["-p", "RATE", "x"], "RATE is a number, not 'x'"),
        (["7"], "There is no unit '7'. Units: 01_a."),
        (["--timeout", "0"], "more than 0 seconds"),
        (["--timeout", "nan"], "more than 0 seconds"),
        (["work/01_a.ipynb"], "takes units such as 01, not files such as work/01_a.ipynb. For your own copy"),
        (["01_a.ipynb"], "takes units such as 01, not files"),
    ],
)
def test_wrong_arguments_stop_before_anything_runs(
    course: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    add(course, "01_a", "1")
    assert run(course, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (course / "out").exists()


def test_a_damaged_notebook_stops_before_anything_runs(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(course, "01_a", "1")
    (course / "notebooks" / "02_b.ipynb").write_text("{")
    assert run(course) == 2
    assert "02_b.ipynb is damaged" in capsys.readouterr().err
    assert not (course / "out").exists()


def test_the_folder_of_the_release_is_never_written_to(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = add(course, "01_a", "1")
    before = source.read_bytes()
    assert main(["run", "--output", str(course / "notebooks")]) == 2
    assert "holds the released notebooks" in capsys.readouterr().err
    assert source.read_bytes() == before


@pytest.mark.parametrize("kind", ["work", "record", "own notebook", "text", "folder"])
def test_nobodys_work_is_replaced(
    course: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    add(course, "01_a", "1")
    out = course / "out"
    mine = write_notebook(out / "01_a.ipynb", [code_cell("a", "my work")])
    if kind == "work":
        monkeypatch.setattr("kvlab.cli.run.work_dir", lambda: out)
    elif kind == "record":
        (out / ".kvlab").mkdir()
    elif kind == "text":
        mine.write_text("{")
    elif kind == "folder":
        mine.unlink()
        mine.mkdir()
    before = None if mine.is_dir() else mine.read_bytes()
    assert run(course) == 2
    expected = "is a learner's folder" if kind in ("work", "record") else "is no copy that papermill made"
    assert expected in capsys.readouterr().err
    assert (None if mine.is_dir() else mine.read_bytes()) == before


def test_an_executed_copy_is_replaced_and_names_its_own_place(course: Path) -> None:
    for text in ["one", "two"]:
        add(course, "01_a", f"import os; print('{text}', os.getcwd())")
        assert run(course) == 0
        assert printed(course, "01_a") == f"{text} {course / 'out'}\n"
    copy = course / "out" / "01_a.ipynb"
    assert json.loads(copy.read_text())["metadata"]["papermill"]["output_path"] == str(copy)
    assert [path.name for path in copy.parent.iterdir()] == [copy.name]


def test_a_failing_cell_is_named_and_the_others_still_run(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(course, "01_a", "1", "{}['lost']")
    add(course, "02_b", "import os; os._exit(3)")
    add(course, "03_c", "print('fine')")
    assert run(course, "-p", "SEED", "4") == 1
    captured = capsys.readouterr()
    assert "01_a: cell 3 (In [4] of the executed copy): KeyError: 'lost'" in captured.err
    assert "02_b: the kernel died" in captured.err
    table = {line.split()[0]: line.split()[-1] for line in captured.out.splitlines() if line.startswith("0")}
    assert table == {"01_a": "failed", "02_b": "failed", "03_c": "ok"}
    assert printed(course, "03_c") == "fine\n"


def test_peak_memory_counts_the_kernel_and_its_children(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hold = "import time; held = b'x' * 200_000_000; time.sleep(1)"
    add(course, "01_a", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {hold!r}])")
    assert run(course) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("01_a")]
    assert 200 < float(line.split()[2]) < 500


def test_an_endless_notebook_is_stopped_with_all_its_processes(
    course: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pid_file = course / "pid"
    child = f"import subprocess, time; open({str(pid_file)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))"
    add(
        course,
        "01_a",
        "print('so far')",
        f"{child}\nwhile True:\n    try:\n        time.sleep(9)\n    except KeyboardInterrupt:\n        pass",
    )
    start = time.monotonic()
    assert run(course, "--timeout", "12") == 1
    assert time.monotonic() - start < 40
    assert "not finished after 12 seconds" in capsys.readouterr().err
    assert not psutil.pid_exists(int(pid_file.read_text()))
    assert printed(course, "01_a") == "so far\n", "the copy holds what was done"


def test_jobs_run_at_the_same_time(course: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each of the two waits for the other: one after the other they could not end."""
    meet = "import pathlib, time\nhere = pathlib.Path({mine!r}); here.touch()\nwhile not pathlib.Path({other!r}).exists(): time.sleep(0.1)"
    files = {"01_a": str(course / "a"), "02_b": str(course / "b")}
    for (unit, mine), other in zip(files.items(), reversed(files.values()), strict=True):
        add(course, unit, meet.format(mine=mine, other=other))
    assert run(course, "--jobs", "2", "--timeout", "60") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:3]] == ["01_a", "02_b"]
    assert run(course, "--jobs", "0") == 2


def test_the_executed_copy_is_written_once_for_a_code_cell(course: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And holds after each of them all that was done, so that a stopped run keeps it."""
    from papermill import engines, execute_notebook

    from kvlab.cli.engine import register

    source = add(course, "01_a", "print(1)", "print(2)")
    notebook = json.loads(source.read_text())
    notebook["cells"].insert(2, {"cell_type": "markdown", "id": "m", "metadata": {}, "source": "text"})
    source.write_text(json.dumps(notebook))
    held: list[int] = []
    write = engines.write_ipynb

    def noted(nb: Any, path: Any) -> None:
        held.append(sum(len(cell.get("outputs", [])) for cell in nb.cells))
        write(nb, path)

    monkeypatch.setattr(engines, "write_ipynb", noted)
    done = execute_notebook(
        str(source), str(course / "copy.ipynb"), engine_name=register(), kernel_name="python3", progress_bar=False
    )
    assert held == [0, 0, 1, 2, 2], "the start, three code cells (the first sets parameters), the end"
    assert [cell.metadata.papermill.status for cell in done.cells] == ["completed"] * 4


def test_a_module_is_absent_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    from kvlab.cli.execute import absent

    monkeypatch.delitem(sys.modules, "colorsys", raising=False)  # matplotlib may have brought it
    with absent("colorsys"), pytest.raises(ImportError):
        import colorsys
    import colorsys

    with absent("colorsys"):
        import colorsys

        assert sys.modules["colorsys"] is colorsys


@pytest.mark.skipif(os.name != "posix", reason="sends POSIX signals")
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGHUP", 129), ("SIGINT", 130), ("SIGKILL", -9)])
def test_an_ended_command_takes_its_kernels_along(course: Path, name: str, code: int) -> None:
    pid_file, temporary = course / "pid", course / "tmp"
    temporary.mkdir()
    child = "child = subprocess.Popen(['sleep', '600'])"
    note = f"open({str(pid_file)!r}, 'w').write(f'{{os.getpid()}} {{os.getppid()}} {{child.pid}} ')"
    add(course, "01_a", f"import os, subprocess, time; {child}; {note}; time.sleep(600)")
    command = [sys.executable, "-m", "kvlab", "run", "--output", str(course / "out")]
    env = os.environ | {"TMPDIR": str(temporary)}
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: pid_file.exists() and pid_file.read_text().endswith(" "), 60)
    assert process.poll() is None
    kernels = [psutil.Process(int(pid)) for pid in pid_file.read_text().split()]
    process.send_signal(getattr(signal, name))
    assert process.wait(timeout=20) == code
    wait_for(lambda: not any(alive(kernel) for kernel in kernels), 20)
    wait_for(lambda: list(temporary.glob("kvlab-*")) == [], 20)


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} seconds"
        time.sleep(0.1)
