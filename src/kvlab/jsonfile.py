"""Read a JSON file so that whatever is wrong with it is said in one sentence, with the path of the file."""

import json
from pathlib import Path
from typing import TypeVar

T = TypeVar("T", dict, list)
_NAMES = {dict: "an object ({...})", list: "an array ([...])"}


def read_json(path: Path, kind: type[T], advice: str = "restore it from the repository") -> T:
    """What the file holds: a dict or a list, as `kind` says.

    Raises ValueError with the path and `advice` for a file that is missing, can't be read, is not JSON in UTF-8,
    or holds something of another kind.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no {path.name} in {path.parent}: {advice}") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror}): {advice}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise ValueError(f"{path} is damaged ({error}): {advice}") from error
    if not isinstance(content, kind):
        raise ValueError(f"{path} is damaged (it does not hold {_NAMES[kind]}): {advice}")
    return content
