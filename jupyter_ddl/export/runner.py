"""Runs notebooks as papermill does, and prints what their cells show into the job's log."""

from __future__ import annotations

from typing import Any

from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

from jupyter_ddl.export.cell_teller import CellTeller

ENGINE = "jupyter_ddl"


class _TellingClient(PapermillNotebookClient):
    """papermill's own tells of streams alone: what ranks print is shown in outputs that change."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._teller = CellTeller()

    def execute_cell(self, cell: Any, cell_index: int, **options: Any) -> Any:
        try:
            return super().execute_cell(cell, cell_index, **options)
        finally:
            if cell.cell_type == "code":
                self._teller.end(cell)

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        try:
            return super().process_message(msg, cell, cell_index)
        finally:
            self._teller.follow(cell)


class _Engine(NBClientEngine):
    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **options: Any) -> Any:
        """Run the notebook; papermill calls it with its options."""
        return _TellingClient(nb_man, kernel_name=kernel_name, startup_timeout=options["start_timeout"]).execute()


def register() -> str:
    """Make papermill know this way of running notebooks; return its name."""
    papermill_engines.register(ENGINE, _Engine)
    return ENGINE
