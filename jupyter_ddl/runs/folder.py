"""A run's folder: the truth about a run, whatever becomes of the kernel and the browser.

RUNS/2026-11-20T18-03-07-default-3f9c/
cell.py         what was run
run.json        on which ranks, when, with what outcome
rank-K.log      all that rank K wrote to its standard streams; written by the rank
"""

from __future__ import annotations

import json
import secrets
import time
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths

if TYPE_CHECKING:
    from pathlib import Path


class RunFolder:
    """The folder of one run, made when the run starts.

    Attributes:
        run: the run's id, which is the folder's name.
        start_s: when it was made, seconds since the epoch.

    Raises:
        FolderNotWritable: it cannot be made.
    """

    def __init__(self, cluster: str, code: str, record: dict[str, Any]) -> None:
        self.run = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{cluster}-{secrets.token_hex(2)}"
        self.path: Path = paths.private_folder(paths.runs_dir(), variable=paths.RUNS_VARIABLE) / self.run
        paths.private_folder(self.path, variable=paths.RUNS_VARIABLE)
        (self.path / "cell.py").write_text(code)
        self._record = {"run": self.run, "cluster": cluster, **record}
        self.start_s = time.time()
        self.update(start_s=self.start_s)

    def update(self, **fields: Any) -> None:
        """Write more of run.json."""
        self._record.update(fields)
        partial = self.path / ".run.json"
        partial.write_text(json.dumps(self._record, indent=1))
        partial.replace(self.path / "run.json")
