"""A run's folder: the truth about a run, whatever becomes of the kernel and the browser.

```
RUNS/2026-11-20T18-03-07-default-3f9c/
    cell.py         what was run
    run.json        on which ranks, when, with what outcome
    rank-K.log      all that rank K wrote to its standard streams; written by the rank
```
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

    def __init__(self, cluster: str) -> None:
        self.start_s = time.time()
        self.run = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{cluster}-{secrets.token_hex(2)}"
        self.path: Path = paths.runs_dir() / self.run
        self._record: dict[str, Any] = {}
        try:
            self.path.mkdir(mode=0o700)
        except OSError:
            # The first run: the folders above are made too, or the error says which variable moves them.
            paths.private_folder(self.path, variable=paths.RUNS_VARIABLE)

    def write(self, code: str, **fields: Any) -> None:
        """Write the cell, and the first of run.json."""
        (self.path / "cell.py").write_text(code)
        self.update(run=self.run, start_s=self.start_s, **fields)

    def update(self, **fields: Any) -> None:
        """Write more of run.json."""
        self._record.update(fields)
        # Renamed into place: a reader finds all of it or what was there before.
        partial = self.path / ".run.json"
        partial.write_text(json.dumps(self._record))
        partial.replace(self.path / "run.json")
