"""Writes a rank's files into the run's folder while it runs, so that a kill at any moment leaves a readable run.

```
rank-K.log             all bytes that the rank wrote to its standard streams, as they came; last, what it raised
rank-K.stderr.jsonl    [offset, length] of each stretch of the log that is stderr
rank-K.times           when each part of the log was written, and how many lines there were by then
rank-K.events.jsonl    the rank's events, numbered
```
A full disk, or a folder that cannot be written, is reported once; the cell, or script, continues without files.

Runs on: every rank. Of a script, the terminal's process writes the logs, since it reads what the ranks write.
"""

from __future__ import annotations

import os
import re
import threading
from contextlib import suppress
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from jupyter_ddl.host.files import append, open_to_append, open_to_splice
from jupyter_ddl.protocol.log_marks import MARK_INTERVAL_BYTES, MARK_INTERVAL_S, mark_record
from jupyter_ddl.protocol.rank_files import EVENTS, LOG, STDERR_SPANS, TIMES, rank_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.protocol.events import RankFailed, Stream

KINDS = (LOG, STDERR_SPANS, TIMES, EVENTS)
# IPython colours a traceback.
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class RunFiles:
    """Files of one rank, of one run at a time.

    Args:
        rank: the rank.
        kinds: which of the files this process writes.
        program: what runs there, for the warning: "cell" or "script".

    Attributes:
        tell: called with a sentence when nothing more can be written; once a run.
    """

    def __init__(self, rank: int, kinds: Sequence[str] = KINDS, program: str = "cell") -> None:
        self._rank = rank
        self._kinds = kinds
        self._program = program
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._size_bytes = 0
        self._lines = 0
        self._is_in_line = False
        self._marked_bytes, self._marked_s = 0, 0.0
        self.tell: Callable[[str], None] = lambda _: None

    def begin(self, folder: str | None) -> None:
        """Write into another folder from now on; nowhere where it is None."""
        problem = None
        with self._lock:
            self._close()
            if folder is None:
                return
            try:
                self._open = _Open(Path(folder), self._rank, self._kinds)
                self._size_bytes = self._lines = self._marked_bytes = 0
                self._marked_s, self._is_in_line = 0.0, False
            except OSError as error:
                problem = self._give_up(error, "cannot be written")
        if problem:
            self.tell(problem)

    @property
    def log_bytes(self) -> int:
        """The length of the log."""
        return self._size_bytes

    @property
    def has_log(self) -> bool:
        """Whether the rank's output is written to a log."""
        return self._open is not None

    def write_output(self, stream: Stream, data: bytes) -> None:
        """Append what the rank printed."""
        with self._lock:
            problem = self._written(lambda files: self._append_output(files, stream, data))
        if problem:
            self.tell(problem)

    def take_output(self, stream: Stream, pipe: int, limit_bytes: int) -> bytes | None:
        """Move what the rank printed from its pipe into the log, in one system call.

        A process that ends between a read and a write loses what it has read: here no byte is in the process only.

        Args:
            stream: which the pipe is of.
            pipe: the descriptor that reads it, which does not block.
            limit_bytes: how much to move at most.

        Returns:
            What was moved, empty where the pipe is; None where there is no log, or the log takes no pipe.
        """
        with self._lock:
            problem = self._written(self._mark)
            data = None if self._open is None else _spliced(pipe, self._open.descriptors[LOG], limit_bytes)
            if data:
                moved = data
                problem = self._written(lambda files: self._count(files, stream, moved))
        if problem:
            self.tell(problem)
        return data

    def write_failure(self, failure: RankFailed) -> None:
        """Append the traceback of what the rank raised, as lines of stderr: the error is where its log is read.

        A rank that was released has none there: the first error in the ranks' logs would be an effect.
        """
        if failure.released or not failure.traceback or LOG not in self._kinds:
            return
        text = "\n".join(part.rstrip("\n") for part in failure.traceback)
        begin = "\n" if self._is_in_line else ""
        self.write_output("stderr", f"{begin}{_COLOURS.sub('', text)}\n".encode(errors="backslashreplace"))

    def write_event(self, line: bytes) -> None:
        """Append an event, as a line of JSON."""
        with self._lock:
            problem = self._written(lambda files: files.append(EVENTS, line))
        if problem:
            self.tell(problem)

    def _append_output(self, files: _Open, stream: Stream, data: bytes) -> None:
        self._mark(files)
        files.append(LOG, data)
        self._count(files, stream, data)

    def _mark(self, files: _Open) -> None:
        """Note when what is about to be written is. Before it: a reader never takes it for what was written earlier."""
        # The system's clock may be set back.
        now_s = max(time(), self._marked_s)
        since_bytes = self._size_bytes - self._marked_bytes
        if now_s - self._marked_s >= MARK_INTERVAL_S or since_bytes >= MARK_INTERVAL_BYTES:
            files.append(TIMES, mark_record(self._size_bytes, self._lines, now_s))
            self._marked_bytes, self._marked_s = self._size_bytes, now_s

    def _count(self, files: _Open, stream: Stream, data: bytes) -> None:
        start, size = self._size_bytes, len(data)
        self._size_bytes += size
        self._is_in_line = not data.endswith(b"\n") if data else self._is_in_line
        self._lines += data.count(b"\n")
        if size and stream == "stderr":
            files.append(STDERR_SPANS, f"[{start}, {size}]\n".encode())

    def _written(self, write: Callable[[_Open], None]) -> str | None:
        """Write, where files are open; return the warning where it fails."""
        if self._open is None:
            return None
        try:
            write(self._open)
        except OSError as error:
            return self._give_up(error, "ends here")
        return None

    def _give_up(self, error: OSError, how: str) -> str:
        self._close()
        return f"jupyter_ddl: the log of rank {self._rank} {how}: {error.strerror}. The {self._program} continues.\n"

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None


def _spliced(pipe: int, log: int, limit_bytes: int) -> bytes | None:
    """Move what a pipe holds to the end of a log; return it, None where that cannot be."""
    try:
        size = os.splice(pipe, log, limit_bytes, flags=os.SPLICE_F_NONBLOCK)
    except BlockingIOError:
        return b""
    except OSError:
        # A file system that takes no pipe, a full disk, a closed descriptor: a read and a write tell which.
        return None
    return os.pread(log, size, os.lseek(log, 0, os.SEEK_CUR) - size)


class _Open:
    """The descriptors of a run's files: all are open, or none."""

    def __init__(self, folder: Path, rank: int, kinds: Sequence[str]) -> None:
        self.descriptors: dict[str, int] = {}
        try:
            for kind in kinds:
                opened = open_to_splice if kind == LOG else open_to_append
                self.descriptors[kind] = opened(folder / rank_file(rank, kind))
        except OSError:
            self.close()
            raise

    def append(self, kind: str, data: bytes) -> None:
        append(self.descriptors[kind], data)

    def close(self) -> None:
        for descriptor in self.descriptors.values():
            # NFS reports a full disk here; the descriptor is closed in any case.
            with suppress(OSError):
                os.close(descriptor)
