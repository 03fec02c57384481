"""Writes and reads a run's folder, which outlives the kernel and the browser.

```
RUNS/2026-11-20T18-03-07-default-3f9c61d2/
    cell.py                what was run
    run.json               on which ranks, when, with what outcome
    labels.json            what its user says of it; see `labels`
    events.jsonl           all events, in the order in which they came; written by the session
    profile.folded         where ranks' time went, by `%ddl profile`, with profile.speedscope.json; later ones are
                           profile-2 and so on; written by the session
    rank-K.log             all that rank K wrote to its standard streams, and what it raised; written by the rank
    rank-K.stderr.jsonl    [offset, length] of each stretch of it that is stderr; likewise
    rank-K.times           when each part of it was written; likewise
    rank-K.events.jsonl    rank K's own events, numbered; likewise
    rank-0.timeline.json   what Horovod recorded of a run with --timeline; written by rank 0
    rank-K.steps.jsonl     when each training step of it began and ended on rank K; likewise
    rank-K.torch-trace.json  what torch's profiler recorded of it on rank K; likewise
    rank-K.jax-trace.json  what JAX's profiler recorded of it on rank K; likewise
    rank-K.ended           empty: rank K's process has ended, and its log is complete
```
"""

from __future__ import annotations

import json
import secrets
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths
from jupyter_ddl.errors import FolderNotWritable
from jupyter_ddl.host import files, process_identity, untrusted_files
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.protocol.codec import json_value
from jupyter_ddl.runs.store import CUT_OFF, newest_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_ddl.protocol.events import RunFinished


class RunFolder:
    """The folder of one run, made when the run starts.

    Attributes:
        run: the run's id, which is the folder's name.
        start_s: when it was made, seconds since the epoch.
        problem: why nothing can be written there; None while it can. The run continues without.
        late_fields: gives fields of run.json that may not be known before the end.
    """

    late_fields: Callable[[], dict[str, Any]] = dict

    def __init__(self, cluster: str) -> None:
        self.start_s = time.time()
        self.problem: str | None = None
        self._record: dict[str, Any] = {}
        try:
            self.run, self.path = _made(cluster, self.start_s)
        except FolderNotWritable as error:
            self.run, self.path, self.problem = _new_id(cluster, self.start_s), error.path, str(error)

    @classmethod
    def reopened(cls, path: Path, record: dict[str, Any]) -> RunFolder:
        """Return the folder of a run that another kernel began, with what its run.json holds."""
        folder = cls.__new__(cls)
        folder.path, folder.run, folder.start_s = path, path.name, record["start_s"]
        folder.problem, folder._record = None, record
        return folder

    @property
    def log_dir(self) -> str | None:
        """Where the ranks write their files; None where they cannot."""
        return None if self.problem else str(self.path)

    @property
    def record(self) -> dict[str, Any]:
        """What run.json holds."""
        return dict(self._record)

    def write(self, code: str, **fields: Any) -> None:
        """Write the cell, and the first fields of run.json."""
        self._replace("cell.py", code)
        self.update(run=self.run, start_s=self.start_s, **fields)

    def update(self, **fields: Any) -> None:
        """Write more fields of run.json."""
        self._record.update(fields)
        self._replace("run.json", json.dumps(json_value(self._record), allow_nan=False))

    def end(self, finished: RunFinished, figures: dict[str, Any]) -> None:
        """Write how the run ended.

        Args:
            finished: the run's last event.
            figures: what its metrics come to.
        """
        fault = None if finished.fault is None else asdict(finished.fault)
        seconds = round(finished.seconds, 4)
        self.update(outcome=finished.outcome, seconds=seconds, fault=fault, **figures, **self.late_fields())

    def _replace(self, name: str, text: str) -> None:
        """Write a file so that a reader finds the whole of it or the one before."""
        if self.problem:
            return
        try:
            files.replace(self.path / name, text)
        except OSError as error:
            self.problem = f"{self.path / name}: {error.strerror}"


def unfinished(world_id: str) -> Iterator[RunFolder]:
    """Yield the folders of the runs that a cluster's ranks began for a kernel that is gone, oldest first."""
    for record in reversed(list(newest_first())):
        try:
            content = untrusted_files.read_object(record.path / "run.json", only_own=True)
        except (OSError, ValueError):
            # Its kernel was killed before it wrote this, so its cluster is not known.
            continue
        if content.get("world_id") == world_id and record.state == CUT_OFF:
            yield RunFolder.reopened(record.path, {**content, "start_s": record.start_s})


def this_process() -> dict[str, Any]:
    """Return what identifies this process, so that readers know whether the kernel that records a run lives."""
    return process_identity.own()


def _new_id(cluster: str, start_s: float) -> str:
    # Of the time that run.json has: the list of runs is in the order of both.
    return f"{time.strftime('%Y-%m-%dT%H-%M-%S', time.localtime(start_s))}-{cluster}-{secrets.token_hex(4)}"


def _made(cluster: str, start_s: float) -> tuple[str, Path]:
    """Make a run's folder; return its id, which no other run has, and the folder.

    Raises:
        FolderNotWritable: it cannot be made, or others could replace it.
    """
    runs = paths.runs_dir()
    while True:
        run = _new_id(cluster, start_s)
        path = runs / run
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            # Another kernel's run of the same second.
            continue
        except FileNotFoundError:
            # The first run: the folders above are made too.
            private_folder(runs, variable=paths.RUNS_VARIABLE)
            continue
        except OSError as error:
            raise FolderNotWritable(path, paths.RUNS_VARIABLE, error.strerror or str(error)) from error
        try:
            # A folder of runs may be shared, if it is sticky: this run's is this user's alone.
            return run, private_folder(path, variable=paths.RUNS_VARIABLE)
        except FolderNotWritable:
            with suppress(OSError):
                path.rmdir()
            raise
