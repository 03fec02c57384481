"""Joins Horovod's timelines of all cells in one file, HOROVOD_TIMELINE=file, and keeps that of a run in its folder.

Horovod is initialised again for each cell, and each time it would truncate the file. So it writes to a file of its own
each time, whose events are then appended to the user's file: valid JSON after each cell, on one clock.
Source: horovod 0.28.1, horovod/common/timeline.cc: a list; TimelineWriter::SetTimelineFile opens with std::ios::trunc,
WriteAtFileStart writes the time that the others count from, and each tensor is a process.

Runs on: every rank; the coordinator, Horovod's rank 0, writes.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.rank_files import rank_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.cell_options import CellOptions

VARIABLE = "HOROVOD_TIMELINE"
# The user's own hvd.start_timeline then names the file.
DYNAMIC = "DYNAMIC"
# A tensor that is in Horovod's response cache has no mark of when each rank handed it over.
# Source: horovod 0.28.1, horovod/common/controller.cc, Controller::ComputeResponseList
CACHE, NO_CACHE = "HOROVOD_CACHE_CAPACITY", "0"
_END = "\n]\n"
# The coordinator's writer closes the file within milliseconds, unless Horovod is shut down at that moment.
_CLOSES_S = 2.0


def wanted() -> str | None:
    """Return the file that the environment asks for, absolute; None for none."""
    path = os.environ.get(VARIABLE, "")
    return None if path in ("", DYNAMIC) else str(Path(path).absolute())


def recorded(rank: int, kind: str, log_dir: str | None, options: CellOptions) -> str | None:
    """Return a rank's file of a run whose timeline is recorded; None where it is not, or cannot be.

    Args:
        rank: the rank.
        kind: TIMELINE, which rank 0 writes, or STEPS.
        log_dir: the run's folder.
        options: the run's.
    """
    return str(Path(log_dir, rank_file(rank, kind))) if options.timeline and log_dir is not None else None


def record_script(path: str | None) -> None:
    """Have a script's own Horovod record its timeline, unless the user has it written elsewhere; None for none."""
    if path is not None and not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = path
        os.environ.setdefault(CACHE, NO_CACHE)


class TimelineFile:
    """One file, over all of Horovod's initialisations.

    Args:
        path: absolute.

    Attributes:
        part: where Horovod writes since its last initialisation.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.part = Path(f"{path}.{os.getpid()}.part")
        self._began_us: int | None = None
        # Each tensor is one process, over all of Horovod's initialisations.
        self._processes: dict[str, int] = {}
        self._is_empty = True
        self._is_begun = False

    def begin(self) -> None:
        """Begin the file, so that it is valid JSON from the first cell on. On the coordinator."""
        if not self._is_begun:
            self._is_begun = True
            self._guarded(lambda: self.path.write_text(f"[{_END}", encoding="utf-8"))

    def join(self) -> None:
        """Append what Horovod has recorded since its last initialisation; only the coordinator's has records."""
        self.join_part(self.part)
        self.part.unlink(missing_ok=True)

    def join_part(self, part: Path) -> None:
        """Append what Horovod has recorded in a file, if it has."""
        if part.exists():
            self.begin()
            self._guarded(
                lambda: self._append([self._moved(event) for event in self._events(part.read_text(encoding="utf-8"))])
            )

    def _events(self, text: str) -> list[dict[str, Any]]:
        if not text.strip():
            return []  # no collective in this cell
        events: list[dict[str, Any]] = json.loads(text)
        first = events[0].get("args", {}).get("start_time_since_epoch_in_micros")
        shift_us = 0
        if first is not None:
            self._began_us = first if self._began_us is None else self._began_us
            shift_us = first - self._began_us
        names = {
            event["pid"]: event["args"]["name"]
            for event in events
            if event.get("name") == "process_name" and "name" in event.get("args", {})
        }
        known = set(self._processes)
        numbers = {pid: self._processes.setdefault(name, len(self._processes) + 1) for pid, name in names.items()}
        numbers[0] = 0
        kept = []
        for event in events:
            if event.get("ph") == "M" and not self._is_new(event, names, known):
                continue
            if "ts" in event:
                event["ts"] += shift_us
            if "pid" in event:
                event["pid"] = numbers[event["pid"]]
            kept.append(event)
        return kept

    def _is_new(self, event: dict[str, Any], names: dict[int, str], known: set[str]) -> bool:
        name = names.get(event.get("pid", 0))
        return self._is_empty if name is None else name not in known

    def _moved(self, event: dict[str, Any]) -> str:
        if event.get("name") == "process_sort_index":
            event["args"]["sort_index"] = event["pid"]
        return json.dumps(event)

    def _append(self, lines: list[str]) -> None:
        if not lines:
            return
        with self.path.open("r+b") as file:
            # In place of the list's end; in one write, so that hardly a moment leaves it cut off.
            file.seek(-len(_END), os.SEEK_END)
            before = "" if self._is_empty else ","
            file.write((before + "\n" + ",\n".join(lines) + _END).encode())
        self._is_empty = False

    def _guarded(self, write: Any) -> None:
        """Write, or say why not: a disk that is full must not keep Horovod from ending."""
        try:
            write()
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:  # also what is no timeline
            print(
                f"WARNING: Horovod's timeline {self.path} lacks this cell: {type(error).__name__}: {error}",
                file=sys.stderr,
            )


class Timelines:
    """The files that Horovod's timeline is to be in: the user's, by HOROVOD_TIMELINE, and the run's.

    The user's may be another at each initialisation of Horovod.
    """

    def __init__(self) -> None:
        self._files: dict[str, TimelineFile] = {}
        self._of_run: TimelineFile | None = None
        # Horovod writes into the part of the first one.
        self._current: list[TimelineFile] = []

    def begin_cell(self, path: str | None) -> None:
        """Record the cell that begins into a file of its own; None for none."""
        self._of_run = None if path is None else TimelineFile(path)

    def choose(self) -> dict[str, str]:
        """Take the files that are asked for now; return the variables with which Horovod is initialised."""
        path = wanted()
        users = None if path is None else self._files.setdefault(path, TimelineFile(path))
        self._current = [file for file in (users, self._of_run) if file is not None]
        if not self._current:
            return {}
        cache = {} if self._of_run is None or CACHE in os.environ else {CACHE: NO_CACHE}
        return {VARIABLE: str(self._current[0].part), **cache}

    def begin(self) -> None:
        """Begin the files. On the coordinator."""
        for file in self._current:
            file.begin()

    def join(self) -> None:
        """Append what Horovod has recorded, when Horovod has been shut down."""
        for file in reversed(self._current):
            file.join_part(self._current[0].part)
        if self._current:
            self._current[0].part.unlink(missing_ok=True)

    def complete(self, stop: Callable[[], None], lock: threading.Lock) -> None:
        """Append what Horovod has recorded, while Horovod keeps running.

        Args:
            stop: Horovod's `stop_timeline`, which closes what it writes.
            lock: held while Horovod is shut down.
        """
        if not self._current or not self._current[0].part.exists():
            return

        def close() -> None:
            with suppress(ValueError):  # shut down meanwhile, which closes it too
                stop()

        # Not here: where a peer shuts Horovod down at this moment the call does not return.
        closing = threading.Thread(target=close, name="jupyter_ddl timeline", daemon=True)
        closing.start()
        closing.join(_CLOSES_S)
        # A shutdown that waits for a frozen peer holds the lock, and joins by itself when it ends.
        if not closing.is_alive() and lock.acquire(timeout=_CLOSES_S):
            try:
                self.join()
            finally:
                lock.release()
