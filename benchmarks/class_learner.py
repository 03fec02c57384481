"""One learner of `benchmarks.class_of_ten`: runs a notebook in a kernel of its own; prints what it took, as JSON.

Usage: python -m benchmarks.class_learner NOTEBOOK
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Longer than ten learners on two cores take.
_CELL_S = 1800
_TIMES = ("iopub.execute_input", "shell.execute_reply")


def main() -> int:
    """Run the notebook; print its seconds, those of each cell, and why it failed, if it did."""
    file = Path(sys.argv[1])
    notebook = nbformat.read(file, as_version=4)  # type: ignore[no-untyped-call]
    began_s, problem = time.monotonic(), None
    try:
        NotebookClient(
            notebook, timeout=_CELL_S, record_timing=True, resources={"metadata": {"path": str(file.parent)}}
        ).execute()
    except CellExecutionError as error:
        problem = str(error)[-2000:]
    seconds = time.monotonic() - began_s
    print(json.dumps({"seconds": seconds, "cells_s": list(_cells_s(notebook)), "problem": problem}))
    return 0 if problem is None else 1


def _cells_s(notebook: Any) -> Iterator[float]:
    """Yield the seconds of each cell that ended."""
    for cell in notebook.cells:
        times = cell.get("metadata", {}).get("execution", {})
        if times.keys() >= set(_TIMES):
            began, ended = (datetime.fromisoformat(times[name].replace("Z", "+00:00")) for name in _TIMES)
            yield (ended - began).total_seconds()


if __name__ == "__main__":
    sys.exit(main())
