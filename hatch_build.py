"""Build hook: puts the course's data, released notebooks and pins inside a wheel.

An editable install gets none of them: there `kvlab.paths` finds the folders of the checkout, and a second copy would
only grow stale.
"""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = {"data": "kvlab/data", "notebooks": "kvlab/notebooks", "constraints.txt": "kvlab/constraints.txt"}


class CourseFiles(BuildHookInterface):
    """Adds the files of `INSIDE` to a standard wheel and refuses to build one without them."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        for source, target in INSIDE.items():
            path = Path(self.root) / source
            if not path.exists():
                raise FileNotFoundError(
                    f"{source} is missing in {self.root}: a wheel without it is not a whole course."
                )
            build_data["force_include"][str(path)] = target
