"""A checkpoint from the Hugging Face hub by its name, `OWNER/NAME`, where the package huggingface_hub is installed.

Not tested against the hub itself: the course's machines have no way to it. What is tested: the refusals, and a
checkpoint that already lies in the hub's cache.
"""

import re
from pathlib import Path

FILES = ["config.json", "model*.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]


def is_hub_name(name: object) -> bool:
    """Whether this is written like a repository of the hub: two words and one slash."""
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) is not None


def download(name: str) -> Path:
    """The folder of a repository's files, fetched when they are not in the hub's cache.

    Raises ValueError without huggingface_hub, and when the hub or the repository cannot be reached.
    """
    try:
        import huggingface_hub
    except ImportError:
        raise ValueError(
            f"there is no folder '{name}', and to fetch it from the Hugging Face hub the package huggingface_hub is "
            f"needed: `pip install huggingface_hub`, or give the path of a folder"
        ) from None
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError

    # Network failures are OSErrors in huggingface_hub below 1.0 (requests) and httpx errors from 1.0 on.
    failures: tuple[type[Exception], ...] = (OSError, EntryNotFoundError, HfHubHTTPError)
    try:
        import httpx
    except ImportError:
        pass
    else:
        failures = (*failures, httpx.HTTPError)
    try:
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=FILES))
    except failures as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(
            f"'{name}' cannot be fetched from the Hugging Face hub ({reason:.200}): check the name and the network, "
            f"or give the path of a folder"
        ) from error
