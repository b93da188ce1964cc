"""Write a file in one step: whoever reads it, and whenever the machine stops, finds the old bytes or all of the new."""

import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, data: bytes, mode: int = 0o600, suffix: str = ".part") -> None:
    """Write `data` to `path`, whose folder exists, with the rights `mode`; the bytes are on the disk on return.

    A link at `path` is replaced, not followed. A killed call may leave `.NAME.RANDOM` + `suffix` beside it. Raises
    OSError; nothing has changed then.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=suffix)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)  # before the new name: nobody sees the file with other rights
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
