"""Runs one notebook with papermill in a process of its own: `python -m kvlab.cli.execute JOB.json`.

`kvlab run` starts it, so that a time limit and the memory count hold whatever the kernel does. The job says what to
run; the result is written as JSON to the path that it names. When `kvlab run` itself is killed, this process ends its
kernel, removes the job's folder and goes too.
"""

import contextlib
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WATCH_SECONDS = 0.5


def kernel_config(folder: Path) -> Any:
    """Kernel settings: sockets in `folder` instead of TCP ports where the system has them and the path is short enough.

    Parallel runs then cannot race for a port, and nothing listens on the network.
    """
    from traitlets.config import Config

    config = Config()
    socket_path = folder / "k.json"
    if os.name == "posix" and len(str(socket_path)) < 80:
        config.KernelManager.transport = "ipc"
        # The file must be absolute: the kernel and this process have different working folders.
        config.KernelManager.connection_file = str(socket_path)
    return config


def source_position(notebook: Path, cell_id: str | None) -> int | None:
    """The place (from 1) of a cell in the notebook as released, before papermill adds cells of its own."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return next((n for n, cell in enumerate(cells, 1) if cell_id and cell.get("id") == cell_id), None)


def one_line(text: str, limit: int = 300) -> str:
    """An error message without colours and line breaks."""
    flat = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def run_job(job: dict[str, Any]) -> dict[str, Any]:
    """Execute; returns `ok`, and `error` as one line that names the cell when it failed."""
    with no_address_parser():
        import papermill
        from nbclient.exceptions import DeadKernelError
        from papermill.exceptions import PapermillExecutionError

        from kvlab.cli.engine import register

    source, output = Path(job["source"]), Path(job["output"])
    try:
        papermill.execute_notebook(
            str(source),
            str(output),
            parameters=job["parameters"],
            engine_name=register(),
            kernel_name="python3",
            language="python",
            progress_bar={"desc": source.stem, "leave": False} if job["progress"] else False,
            cwd=job["folder"],
            config=kernel_config(Path(job["private"])),
            iopub_timeout=60,
            # All outputs are here by then; an interpreter with torch takes half a second to end in peace.
            shutdown_kernel="immediate",
        )
    except PapermillExecutionError as error:
        executed = json.loads(output.read_text(encoding="utf-8"))["cells"]
        # papermill puts a banner above the failing cell, so look the cell up by its output.
        failed: dict[str, Any] = next((cell for cell in executed if _has_error(cell)), {})
        position = source_position(source, failed.get("id"))
        where = f"cell {position}" if position else "an injected cell"
        message = f"{error.ename}: {error.evalue}" if error.evalue else error.ename
        return {"ok": False, "error": one_line(f"{where} (In [{error.exec_count}] of the executed copy): {message}")}
    except DeadKernelError:
        return {"ok": False, "error": "the kernel died (out of memory, or the process was ended)"}
    return {"ok": True, "error": ""}


def no_address_parser() -> contextlib.AbstractContextManager[None]:
    """For imports of nbformat, which loads rfc3987_syntax by way of jsonschema, and that builds a parser for two seconds.

    It judges addresses, of which a notebook's format has none; jsonschema does without it where it is not installed.
    """
    return absent("rfc3987_syntax")


@contextlib.contextmanager
def absent(module: str) -> Iterator[None]:
    """Let imports of a module fail meanwhile, unless it has been imported before."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]  # Python's own mark for "not to be found"
    try:
        yield
    finally:
        sys.modules.pop(module, None)


def _has_error(cell: dict[str, Any]) -> bool:
    return any(item.get("output_type") == "error" for item in cell.get("outputs", []))


def watch_parent(parent: int, folder: Path) -> None:
    """Wait until the process that started this one is gone; then end all that runs here and remove `folder`."""
    import psutil

    try:
        starter = psutil.Process(parent)
        # A killed process that nobody has waited for still "runs"; on POSIX its children change their parent at once.
        while os.getppid() == parent if os.name == "posix" else starter.is_running():
            time.sleep(WATCH_SECONDS)
    except psutil.NoSuchProcess:
        pass
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def main(path: str) -> int:
    """Read the job file, run it, write its result in one step."""
    job = json.loads(Path(path).read_text(encoding="utf-8"))
    threading.Thread(target=watch_parent, args=(job["parent"], Path(job["private"])), daemon=True).start()
    result = run_job(job)
    temporary = Path(job["result"] + ".tmp")
    temporary.write_text(json.dumps(result), encoding="utf-8")
    os.replace(temporary, job["result"])
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # the result is written; to take apart what papermill imported would take as long as a short cell
