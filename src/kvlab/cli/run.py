"""`kvlab run [UNIT...]`: executes released notebooks with papermill; reports seconds, memory and the first error."""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvlab.cli import units
from kvlab.cli.errors import CommandError
from kvlab.cli.files import full_path, parse_notebook, read_release, write_atomic
from kvlab.cli.jupyter import environment, write_config, write_kernelspec
from kvlab.cli.parameters import Value, assign
from kvlab.cli.workspace import PRIVATE
from kvlab.paths import build_dir, work_dir

SAMPLE_SECONDS = 0.2
OWN_COPY = "For your own copy use papermill: `papermill FILE out.ipynb`."


@dataclass(frozen=True)
class Outcome:
    """One executed notebook. `peak_mb`: largest sum of resident memory of the kernel's processes, in 10^6 bytes."""

    unit: str
    seconds: float
    peak_mb: float
    error: str

    @property
    def ok(self) -> bool:
        """Whether every cell ran."""
        return not self.error


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    text = "Execute released notebooks (not your copies in work/) and report time, memory and errors."
    parser = commands.add_parser(
        "run",
        help="execute released notebooks (not your copies in work/)",
        description=f"{text} {OWN_COPY}",
    )
    parser.add_argument("units", nargs="*", metavar="UNIT", help="units such as 1, 01 or 01_kv_cache (default: all)")
    parser.add_argument(
        "-p", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"), dest="parameters", help="set a parameter"
    )
    parser.add_argument("--fast", action="store_true", help="short form of -p FAST true")
    parser.add_argument("--timeout", type=float, default=600, help="seconds a notebook may take (default: 600)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="notebooks at a time, one for each core at most (default: 1; with more, the times that notebooks show "
        "are those of a busy machine)",
    )
    parser.add_argument("--output", type=Path, default=None, help="where the executed copies go (default: build/run)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command; 1 when a cell failed anywhere."""
    if not options.timeout > 0:  # "nan" is not more than 0 either
        raise CommandError("--timeout must be more than 0 seconds.")
    if options.jobs < 1:
        raise CommandError("--jobs must be at least 1.")
    released = units.released()
    for name in options.units:
        if name.endswith(".ipynb") or Path(name).name != name:
            raise CommandError(f"`kvlab run` takes units such as 01, not files such as {name}. {OWN_COPY}")
    names = sorted({units.find(name) for name in options.units} or released)
    for name in names:
        read_release(released[name])
    given = [(name, text) for name, text in options.parameters] + ([("FAST", "true")] if options.fast else [])
    parameters = assign({name: released[name] for name in names}, given)
    folder = full_path(options.output or build_dir() / "run")
    refuse_output(folder, names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"Cannot make {folder}: {error.strerror or error}. Choose another with --output.") from error
    # A plain end (`timeout`) and a closed terminal become exceptions, so that the kernels are ended too.
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    outcomes = run_notebooks(
        [(released[name], folder / f"{name}.ipynb", parameters[name]) for name in names], options.timeout, options.jobs
    )
    print(table(outcomes))
    print(f"Executed copies of the released notebooks: {folder}")
    return 0 if all(outcome.ok for outcome in outcomes) else 1


def refuse_output(folder: Path, names: list[str]) -> None:
    """Raise CommandError when executed copies in `folder` could take the place of anybody's work."""
    units.refuse_release(folder, "--output")
    if folder == full_path(work_dir()) or (folder / PRIVATE).exists():
        raise CommandError(f"{folder} is a learner's folder. Choose another one with --output. {OWN_COPY}")
    for path in (folder / f"{name}.ipynb" for name in names):
        if path.exists() and not _is_executed_copy(path):
            raise CommandError(
                f"{path} is no copy that papermill made, so it is not replaced. "
                "Move it away, or choose another folder with --output."
            )


def _is_executed_copy(path: Path) -> bool:
    """Whether this is a notebook with papermill's mark."""
    try:
        metadata = parse_notebook(path.read_bytes()).get("metadata")
    except (OSError, ValueError):
        return False
    return isinstance(metadata, dict) and isinstance(metadata.get("papermill"), dict)


def table(outcomes: list[Outcome]) -> str:
    """The report as text."""
    width = max(len("notebook"), *(len(outcome.unit) for outcome in outcomes))
    lines = [f"{'notebook':<{width}}  {'seconds':>7}  {'peak MB':>7}  result"]
    for outcome in outcomes:
        result = "ok" if outcome.ok else "failed"
        lines.append(f"{outcome.unit:<{width}}  {outcome.seconds:>7.1f}  {outcome.peak_mb:>7.0f}  {result}")
    return "\n".join(lines)


def run_notebooks(work: list[tuple[Path, Path, dict[str, Value]]], timeout: float, jobs: int = 1) -> list[Outcome]:
    """Execute notebooks, `jobs` at a time; each error is printed when it is known. The outcomes come in order."""
    stop = threading.Event()

    def one(item: tuple[Path, Path, dict[str, Value]]) -> Outcome:
        outcome = run_notebook(*item, timeout, stop)
        if outcome.error and not stop.is_set():
            print(f"{outcome.unit}: {outcome.error}", file=sys.stderr, flush=True)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        started = [pool.submit(one, item) for item in work]
        try:
            return [future.result() for future in started]
        except BaseException:  # Ctrl-C and the signals of `execute` arrive here: the threads end their kernels
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def run_notebook(
    source: Path, output: Path, parameters: dict[str, Value], timeout: float, stop: threading.Event | None = None
) -> Outcome:
    """Execute one notebook into `output`; every process it started is ended when `timeout` seconds are over or `stop` is set.

    `output` is written in one step at the end; after a failure it holds the cells as far as they came.
    """
    with tempfile.TemporaryDirectory(prefix="kvlab-") as text:
        private = Path(text)
        write_config(private / "config", instructor=False)
        write_kernelspec(private / "data")
        job = {
            "source": str(source.resolve()),
            "output": str(private / "executed.ipynb"),
            "folder": str(output.parent),
            "parent": os.getpid(),
            "parameters": parameters,
            "result": str(private / "result.json"),
            "private": text,
            "progress": sys.stderr.isatty(),
        }
        (private / "job.json").write_text(json.dumps(job), encoding="utf-8")
        start = time.monotonic()
        log = private / "log.txt"
        peak, ended = _watch(private, log, timeout, stop or threading.Event())
        seconds = time.monotonic() - start
        if not ended:
            error = f"not finished after {timeout:g} seconds; it was stopped"
        elif (private / "result.json").is_file():
            error = json.loads((private / "result.json").read_text(encoding="utf-8"))["error"]
        else:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            error = f"papermill itself failed: {lines[-1] if lines else 'it said nothing'}"
        _keep(private / "executed.ipynb", output)
    return Outcome(source.stem, seconds, peak / 1e6, error)


def _keep(executed: Path, output: Path) -> None:
    """Put the executed notebook in its place, or remove an older one when there is nothing (whole) to keep."""
    try:
        notebook = parse_notebook(executed.read_bytes())
    except (FileNotFoundError, ValueError):
        output.unlink(missing_ok=True)
        return
    # papermill recorded the temporary place.
    notebook["metadata"]["papermill"]["output_path"] = str(output)
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    write_atomic(output, text.encode())


def _watch(private: Path, log: Path, timeout: float, stop: threading.Event) -> tuple[int, bool]:
    """Run the job; returns the peak memory of the kernel's processes in bytes, and whether the job ended by itself."""
    import psutil

    command = [sys.executable, "-m", "kvlab.cli.execute", str(private / "job.json")]
    # The kernel is ended without a word, so what it leaves among temporary files must go with the folder.
    env = environment(private) | {"TMPDIR": str(private)}
    # The kernel's notices (about TCP, about a frozen debugger) are of no use here; a real failure is in the result.
    with log.open("wb") as errors:
        stderr = None if sys.stderr.isatty() else errors
        # In a session of its own it hears of Ctrl-C and a closed terminal from us only, so it can't die before its kernel.
        process = subprocess.Popen(
            command, env=env, stdout=errors, stderr=stderr, stdin=subprocess.DEVNULL, start_new_session=True
        )
        runner = psutil.Process(process.pid)
        peak, deadline = 0, time.monotonic() + timeout
        try:
            while process.poll() is None:
                peak = max(peak, _memory(runner))
                if time.monotonic() > deadline or stop.is_set():
                    return peak, False
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(SAMPLE_SECONDS)
        finally:
            _end_tree(runner)
            process.wait()
    return peak, True


def _memory(runner: Any) -> int:
    """Resident bytes of all processes below the runner."""
    import psutil

    total = 0
    try:
        children = runner.children(recursive=True)
    except psutil.NoSuchProcess:
        return 0
    for child in children:
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def _end_tree(runner: Any) -> None:
    """End the runner and everything below it."""
    import psutil

    try:
        processes = [*runner.children(recursive=True), runner]
    except psutil.NoSuchProcess:
        return
    for process in processes:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(processes, timeout=5)
