"""Starts JupyterLab with settings of our own, so that the learner's and the system's Jupyter files stay untouched.

What a learner never needs is switched off: nbgrader's instructor panels, the authoring panels, news, update checks and
the extension manager. Nothing asks for the network.
"""

import json
import os
import sys
import sysconfig
from pathlib import Path
from urllib.parse import quote

from kvlab.cli.files import write_atomic

_QUIET_PLUGINS = (
    "@jupyterlab/apputils-extension:announcements",
    "@jupyterlab/extensionmanager-extension",
)
_INSTRUCTOR_PLUGINS = (
    "@jupyter/nbgrader:assignment-list",
    "@jupyter/nbgrader:course-list",
    "@jupyter/nbgrader:create-assignment",
    "@jupyter/nbgrader:formgrader",
    "@jupyter/nbgrader:menu",
    "jupyterlab-jupytext",
)
_INSTRUCTOR_SERVERS = (
    "nbgrader.server_extensions.assignment_list",
    "nbgrader.server_extensions.course_list",
    "nbgrader.server_extensions.formgrader",
    "jupyterlab_jupytext",
)


def write_config(folder: Path, *, instructor: bool) -> None:
    """Write the Jupyter settings of the course into `folder`, a private Jupyter configuration folder."""
    disabled = _QUIET_PLUGINS if instructor else _QUIET_PLUGINS + _INSTRUCTOR_PLUGINS
    notification = {"fetchNews": "false", "checkForUpdates": False}
    server = {
        "LabApp": {
            "news_url": None,
            "extension_manager": "readonly",
            "check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
        },
        "ServerApp": {"jpserver_extensions": dict.fromkeys(() if instructor else _INSTRUCTOR_SERVERS, False)},
    }
    files = {
        "labconfig/page_config.json": {"disabledExtensions": dict.fromkeys(disabled, True)},
        "labconfig/default_setting_overrides.json": {"@jupyterlab/apputils-extension:notification": notification},
        "jupyter_server_config.json": server,
        # What Validate allows a cell: nbgrader's own 30 and 4 seconds end it on a busy or small machine.
        "nbgrader_config.json": {"Execute": {"timeout": 600, "iopub_timeout": 120}},
    }
    for name, content in files.items():
        write_atomic(folder / name, (json.dumps(content, indent=1) + "\n").encode())


def write_kernelspec(folder: Path) -> None:
    """Write a kernel `python3` that is this interpreter into `folder`, a Jupyter data folder.

    A `python3` that the user registered for some other environment would otherwise be able to take its place.
    """
    # The extension explains errors from the first cell on; what a notebook calls itself is gone after a restart.
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=kvlab.next_step"]
    spec = {"argv": argv, "display_name": "Python 3 (kvlab)", "language": "python", "metadata": {"debugger": True}}
    write_atomic(folder / "kernels" / "python3" / "kernel.json", (json.dumps(spec, indent=1) + "\n").encode())


def environment(folder: Path) -> dict[str, str]:
    """The environment of a Jupyter process that reads `folder`'s settings and kernel before all others.

    `folder` holds `config/` (see `write_config`) and `data/` (see `write_kernelspec`).
    """
    env = dict(os.environ)
    # A terminal in JupyterLab then knows `kvlab`, also where nobody has activated the environment.
    own = dict.fromkeys([str(Path(sys.executable).parent), sysconfig.get_path("scripts")])
    env["PATH"] = os.pathsep.join(filter(None, [*own, os.environ.get("PATH")]))
    env["JUPYTER_CONFIG_DIR"] = str(folder / "config")
    # The folder is named twice because in a virtual environment the environment's own settings would win otherwise.
    env["JUPYTER_CONFIG_PATH"] = str(folder / "config")
    env["JUPYTER_PATH"] = os.pathsep.join(filter(None, [str(folder / "data"), os.environ.get("JUPYTER_PATH")]))
    return env


def server_command(root: Path, port: int, *, browser: bool, opened: str | None = None) -> list[str]:
    """The command that starts JupyterLab on `root`. `opened`: a file there that it shows at first."""
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        f"--ServerApp.root_dir={root}",
        f"--ServerApp.port={port}",
        "--ServerApp.port_retries=0",
    ]
    if not browser:
        command.append("--no-browser")
    if opened is not None:
        command.append(f"--LabApp.default_url=/lab/tree/{quote(opened)}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command
