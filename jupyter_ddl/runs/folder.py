"""A run's folder: the truth about a run, whatever becomes of the kernel and the browser.

```
RUNS/2026-11-20T18-03-07-default-3f9c/
    cell.py                what was run
    run.json               on which ranks, when, with what outcome
    events.jsonl           all events, in the order in which they came; written by the session
    rank-K.log             all that rank K wrote to its standard streams; written by the rank
    rank-K.stderr.jsonl    [offset, length] of what of that is stderr; likewise
    rank-K.events.jsonl    rank K's own events, numbered; likewise
    rank-K.ended           empty: rank K's process has ended, and its log is complete
```
"""

from __future__ import annotations

import json
import secrets
import socket
import time
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl import paths
from jupyter_ddl.errors import FolderNotWritable
from jupyter_ddl.runs.store import CUT_OFF, read_record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class RunFolder:
    """The folder of one run, made when the run starts.

    Attributes:
        run: the run's id, which is the folder's name.
        start_s: when it was made, seconds since the epoch.
        problem: why nothing can be written there; None while it can. The run goes on without.
    """

    def __init__(self, cluster: str) -> None:
        self.start_s = time.time()
        self.run = f"{time.strftime('%Y-%m-%dT%H-%M-%S')}-{cluster}-{secrets.token_hex(2)}"
        self.path: Path = paths.runs_dir() / self.run
        self.problem: str | None = None
        self._record: dict[str, Any] = {}
        try:
            self.path.mkdir(mode=0o700)
        except OSError:
            # The first run: the folders above are made too, or the error says which variable moves them.
            try:
                paths.private_folder(self.path, variable=paths.RUNS_VARIABLE)
            except FolderNotWritable as error:
                self.problem = str(error)

    @classmethod
    def reopened(cls, path: Path, record: dict[str, Any]) -> RunFolder:
        """Return the folder of a run that another kernel began, with what its run.json holds."""
        folder = cls.__new__(cls)
        folder.path, folder.run, folder.start_s = path, path.name, record["start_s"]
        folder.problem, folder._record = None, record
        return folder

    @property
    def log_dir(self) -> str | None:
        """Where the ranks write their files; None where nobody can."""
        return None if self.problem else str(self.path)

    @property
    def record(self) -> dict[str, Any]:
        """What run.json holds."""
        return dict(self._record)

    def write(self, code: str, **fields: Any) -> None:
        """Write the cell, and the first of run.json."""
        self._replace("cell.py", code)
        self.update(run=self.run, start_s=self.start_s, **fields)

    def update(self, **fields: Any) -> None:
        """Write more of run.json."""
        self._record.update(fields)
        self._replace("run.json", json.dumps(self._record))

    def _replace(self, name: str, text: str) -> None:
        """Write a file so that a reader finds all of it or what was there before."""
        if self.problem:
            return
        partial = self.path / f".{name}"
        try:
            partial.write_text(text, encoding="utf-8", errors="surrogatepass")
            partial.replace(self.path / name)
        except OSError as error:
            self.problem = f"{self.path / name}: {error.strerror}"


def unfinished(world_id: str) -> Iterator[RunFolder]:
    """Yield the folders of the runs that a cluster's ranks began for a kernel that is gone, oldest first."""
    try:
        entries = sorted(paths.runs_dir().iterdir())
    except OSError:
        return
    for entry in entries:
        try:
            record = json.loads((entry / "run.json").read_text())
        except (OSError, ValueError):
            # Not a run's folder, or one whose kernel was killed before it wrote this: nothing says whose it was.
            continue
        if record.get("world_id") == world_id and read_record(entry).state == CUT_OFF:
            yield RunFolder.reopened(entry, record)


def this_process() -> dict[str, Any]:
    """Return what tells this process from every other: of a run, whether the kernel that records it lives."""
    process = psutil.Process()
    return {"pid": process.pid, "started_s": process.create_time(), "host": socket.gethostname()}
