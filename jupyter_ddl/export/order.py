"""Reads and writes the folder of an export.

FOLDER/
notebook.ipynb          the copy that the job runs
job.sh                  sends it: `sbatch job.sh`; for Kubernetes mpijob.json and trainjob.json
job.json                what the job runs; see `ExportOrder`
job*.log                what the job printed
executed[-K].ipynb      the notebook with its outputs, of point K of a sweep
result[-K].json         what came of it
comparison.html         the points of a sweep beside each other
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import files

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK, ORDER, SCRIPT, COMPARISON = "notebook.ipynb", "job.json", "job.sh", "comparison.html"
MPI_JOB, TRAIN_JOB = "mpijob.json", "trainjob.json"


@dataclass(frozen=True)
class ExportOrder:
    """What the job of an export runs.

    Attributes:
        title: the notebook's name, without its ending.
        ranks: that the job has room for.
        working_folder: in which its cells run: the notebook's own.
        runs: the folder of the runs.
        points: the parameters of each execution.
        swept: the names of those that differ.
    """

    title: str
    ranks: int
    working_folder: str
    runs: str
    points: list[dict[str, Any]] = field(default_factory=lambda: [{}])
    swept: list[str] = field(default_factory=list)


class ExportFolder:
    """The folder of one export."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def order(self) -> ExportOrder:
        """Return what the job runs.

        Raises:
            InvalidInput: the folder is none of an export.
        """
        try:
            return ExportOrder(**json.loads((self.path / ORDER).read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise InvalidInput(
                "What is executed must be a folder that `jupyter ddl export` made.", self.path, "Export the notebook."
            ) from error

    def write_order(self, order: ExportOrder) -> None:
        """Write what the job runs."""
        files.replace(self.path / ORDER, json.dumps(asdict(order), indent=1) + "\n", mode=files.SHARED)

    def executed(self, order: ExportOrder, point: int) -> Path:
        """Return the file of the notebook with the outputs of a point."""
        return self.path / f"executed{_of(order, point)}.ipynb"

    def result(self, order: ExportOrder, point: int) -> Path:
        """Return the file of what came of a point."""
        return self.path / f"result{_of(order, point)}.json"


def _of(order: ExportOrder, point: int) -> str:
    return f"-{point}" if len(order.points) > 1 else ""
