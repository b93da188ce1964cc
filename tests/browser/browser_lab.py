"""The server that a browser test talks to."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, the token it printed, and the learner's folder."""

    address: str
    token: str
    work: Path

    def notebook_url(self, name: str) -> str:
        """The address that opens one notebook, and nothing that an earlier session left open."""
        return f"{self.address}/lab/tree/{name}?token={self.token}&reset"
