"""papermill's engine, which writes the executed copy once for a code cell instead of twice for every cell.

Importing this imports papermill.
"""

from typing import Any

from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

NAME = "kvlab"


class _Manager(NotebookExecutionManager):
    """Saves when a code cell has ended. Nothing but a mark has changed when a cell begins or a text cell "has run",
    and each save copies, judges and writes the whole notebook, with every figure so far.
    """

    _only_marks = False

    def cell_start(self, cell: Any, *args: Any, **kwargs: Any) -> None:
        self._only_marks = True
        super().cell_start(cell, *args, **kwargs)
        self._only_marks = False

    def cell_complete(self, cell: Any, *args: Any, **kwargs: Any) -> None:
        self._only_marks = cell.cell_type != "code"
        super().cell_complete(cell, *args, **kwargs)
        self._only_marks = False

    def save(self, **kwargs: Any) -> None:
        if not self._only_marks:
            super().save(**kwargs)


class _Engine(NBClientEngine):
    @classmethod
    def execute_notebook(
        cls,
        nb: Any,
        kernel_name: str,
        output_path: str | None = None,
        progress_bar: Any = True,
        log_output: bool = False,
        autosave_cell_every: int = 30,
        **kwargs: Any,
    ) -> Any:
        """As papermill's own, with the manager above."""
        manager = _Manager(
            nb,
            output_path=output_path,
            progress_bar=progress_bar,
            log_output=log_output,
            autosave_cell_every=autosave_cell_every,
        )
        manager.notebook_start()
        try:
            cls.execute_managed_notebook(manager, kernel_name, log_output=log_output, **kwargs)
        finally:
            manager.cleanup_pbar()
            manager.notebook_complete()
        return manager.nb


def register() -> str:
    """Make the engine known to papermill; returns its name."""
    papermill_engines.register(NAME, _Engine)
    return NAME
