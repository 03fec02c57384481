"""Captures what this process writes to file descriptors 1 and 2, from Python and from C++ alike.

Each descriptor becomes a pipe. A thread reads both, writes every byte to the run's log, and sends the session at most
ten chunks a second of at most CHUNK_LIMIT_BYTES each: a rank that prints in a tight loop slows no other process, and
its log is complete. What its thread calls is bound when this is imported, as everywhere in a rank's machinery where a
cell may rebind it (`time.sleep`, `os.write`). ipykernel's own OutStream is not used: its prints bypass the descriptors.

Runs on: every rank.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import select
import sys
import threading
from contextlib import contextmanager, suppress
from os import dup2, fstat, read, write
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine.c_streams import CStdout
from jupyter_ddl.engine.shutdown_notes import ShutdownNotes
from jupyter_ddl.host.output_chunks import CHUNK_INTERVAL_S, Chunks
from jupyter_ddl.host.stall_messages import StallReader
from jupyter_ddl.protocol.exit_statuses import THREAD_ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.engine.world import World
    from jupyter_ddl.host.run_files import RunFiles
    from jupyter_ddl.protocol.events import CollectiveStalled, Event, Stream

_READ_BYTES = 1 << 16
# At 10 MB/s a pipe of 64 KiB, the least size, is full in 6 ms.
_NAP_S = 0.005
_PIPE_BYTES = 1 << 20  # what Linux grants any user

# What TensorFlow's C++ code logs of itself when it is imported, anywhere in a line that the cell has begun; and what
# torch's profiler does when it first starts in another thread than the one that imported torch, which changes nothing.
# Source: kineto, libkineto/src/libkineto_api.cpp, initProfilerIfRegistered
_STARTUP_LOG = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog\(\) is called are written to STDERR\n"
    rb"|[IWE]0000 00:00:\d+\.\d+ +\d+ [\w./]+:\d+\] .{0,4000}\n"
    rb"|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: [IWE] [\w./]+:\d+\] .{0,4000}\n"
    rb"|To enable the following instructions: .{0,4000}, rebuild TensorFlow with the appropriate compiler flags\.\n"
    rb"|(?:ERROR: )?External init callback must run in same thread as registerClient \(-?\d+ != -?\d+\)\n"
)


class _Pipe(Chunks):
    """One captured descriptor: its pipe, and what was read from it but not yet sent."""

    def __init__(self, stream: Stream, descriptor: int) -> None:
        super().__init__(stream)
        self._descriptor = descriptor
        # The writer stays open beside its copy, or the reader would find an end when a cell closes the copy.
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        with suppress(OSError):
            # A smaller pipe works too: whenever it is full, the rank waits for our thread.
            fcntl.fcntl(self._writer, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.dup2(self._writer, descriptor)

    def restore(self) -> None:
        """Open the descriptor again where a cell has closed it; one that put its own there keeps it."""
        try:
            fstat(self._descriptor)
        except OSError:
            dup2(self._writer, self._descriptor)

    def read(self) -> bytes:
        """Return the bytes in the pipe, without waiting; empty where there are none."""
        try:
            return read(self.reader, _READ_BYTES)
        except BlockingIOError:
            return b""


class Capture:
    """The output of one rank, for as long as its process lives.

    Args:
        world: this rank's.
        emit: sends an event.
        files: takes every byte.
        leave: ends this process, once no output can leave it any more.
        report_stall: called with each stall that standard error tells of.
    """

    def __init__(
        self,
        world: World,
        emit: Callable[[Event], None],
        files: RunFiles,
        leave: Callable[[int, str], None],
        report_stall: Callable[[CollectiveStalled], None],
    ) -> None:
        self._rank = world.rank
        self._emit = emit
        self._files = files
        self._leave = leave
        self._lock = threading.Lock()
        self._run = ""
        self._stalls = StallReader(world.rank, report_stall)
        self._notes = ShutdownNotes()
        self.original_stderr = os.dup(2)
        sys.stdout.flush()
        sys.stderr.flush()
        self._pipes = (_Pipe("stdout", 1), _Pipe("stderr", 2))
        self._is_starting = False
        self._c_stdout = CStdout()
        self._stdout = sys.stdout = _text_stream(1)
        self._stderr = sys.stderr = _text_stream(2)
        self._thread = threading.Thread(target=self._pump, name="jupyter_ddl capture", daemon=True)
        self._thread.start()

    @property
    def readers(self) -> tuple[int, int]:
        """The descriptors from which standard output and standard error are read."""
        stdout, stderr = self._pipes
        return stdout.reader, stderr.reader

    def begin(self, run: str, *, is_starting: bool = False, tells_stalls: bool = False) -> None:
        """Attribute everything from now on to `run`.

        Output between two runs (of a thread that the cell left behind) goes with the earlier of them.

        Args:
            run: the run's id.
            is_starting: a framework is being imported meanwhile, and what it logs is not the cell's.
            tells_stalls: the stall messages of a library go into the log, and are sent as an event.
        """
        self.flush_streams()
        self.drain()
        with self._lock:
            self._is_starting = is_starting
            self._run = run
            self._stalls.begin(run if tells_stalls else None)

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Leave out what a framework's profiler logs as it starts, for the length of the block."""
        self.drain()
        was_starting, self._is_starting = self._is_starting, True
        try:
            yield
        finally:
            self.drain()
            self._is_starting = was_starting

    def drain(self) -> None:
        """Send everything that has been written so far. Call it before the event that ends the run."""
        try:
            self._drain()
        except OSError as error:
            self._judge(error)
            raise

    def _drain(self) -> None:
        for pipe in self._pipes:
            # Recent output is still to be written; and the next file to be opened would get its descriptor.
            pipe.restore()
        for stream in (self._stdout, self._stderr):
            # ValueError: a cell has closed it, or detached what is below it.
            with suppress(OSError, ValueError):
                stream.flush()
        self._c_stdout.flush()
        with self._lock:
            for pipe in self._pipes:
                while self._take_in(pipe):
                    pass
            self._pipes[1].keep(self._notes.feed(self._stalls.finish()) + self._notes.finish())
            self._send()

    def flush_streams(self) -> None:
        """Flush the standard streams, a cell's own too; replace one that cannot be written any more by ours.

        A cell may have closed, detached or deleted them. What it put in their place is its code, and may take long.
        """
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            ours = getattr(self, f"_{name}")
            if not _can_be_flushed(ours):
                ours = _text_stream(descriptor)
                setattr(self, f"_{name}", ours)
            if not _can_be_flushed(getattr(sys, name, ...)):
                # ipykernel flushes it after each cell: its event loop would not outlive an error that it cannot log.
                setattr(sys, name, ours)

    @property
    def is_alive(self) -> bool:
        """Whether a thread empties the pipes."""
        return self._thread.is_alive()

    def _pump(self) -> None:
        poller = select.poll()
        for pipe in self._pipes:
            poller.register(pipe.reader, select.POLLIN)
        self._next_s, self._is_waiting = 0.0, False
        while True:
            try:
                is_more = self._pump_once(poller)
            except OSError as error:
                self._judge(error)
                is_more = False
            except Exception:  # noqa: BLE001  what cannot be sent stands in the log; who prints must never wait for us
                is_more = False
            if not is_more:
                # A program that prints line by line would wake this thread for each, and wait for Python's lock each
                # time.
                sleep(_NAP_S)

    def _judge(self, error: OSError) -> None:
        """End this process where a cell has closed our pipes: the next print would wait for ever."""
        if error.errno == errno.EBADF:
            self._leave(THREAD_ENDED, "a cell has closed the descriptors of the pipes that take its output")

    def _pump_once(self, poller: select.poll) -> bool:
        """Wait for output, read it, and send it when it is due; return whether there is more."""
        wait_s = max(0.0, self._next_s - monotonic()) if self._is_waiting else self._stalls.waits_s
        poller.poll(None if wait_s is None else wait_s * 1000)
        with self._lock:
            is_more = False
            for pipe in self._pipes:
                size = self._take_in(pipe)
                self._is_waiting = self._is_waiting or size > 0
                is_more = is_more or size == _READ_BYTES
            if self._stalls.waits_s == 0.0:
                self._pipes[1].keep(self._stalls.finish())
                self._is_waiting = True
            if self._is_waiting and monotonic() >= self._next_s:
                # Set before sending, which may fail: the next attempt must not follow at once.
                self._is_waiting, self._next_s = False, monotonic() + CHUNK_INTERVAL_S
                self._send()
        return is_more

    def _take_in(self, pipe: _Pipe) -> int:
        """Read what is in a pipe, up to _READ_BYTES; return how much it was."""
        # Moved and not copied: what a rank prints just before it ends must be in the pipe or in the log at any moment.
        moved = None if self._is_starting else self._files.take_output(pipe.stream, pipe.reader, _READ_BYTES)
        data = pipe.read() if moved is None else moved
        if not data:
            return 0
        if self._is_starting:
            data = _STARTUP_LOG.sub(self._divert, data)
        if moved is None:
            self._write(pipe.stream, data)
        pipe.keep(self._notes.feed(self._stalls.feed(data)) if pipe.stream == "stderr" else data)
        return len(data)

    def _write(self, stream: Stream, data: bytes) -> None:
        if self._files.has_log:
            self._files.write_output(stream, data)
        else:
            write(self.original_stderr, data)

    def _divert(self, match: re.Match[bytes]) -> bytes:
        write(self.original_stderr, match[0])
        return b""

    def _send(self) -> None:
        for pipe in self._pipes:
            chunk = pipe.take(self._run, self._rank, self._files.log_bytes)
            if chunk is not None and self._run:
                try:
                    self._emit(chunk)
                except BaseException:
                    # Sent when sending works again.
                    pipe.take_back(chunk)
                    raise


def _can_be_flushed(stream: Any) -> bool:
    if stream is None:
        # As Python sets it where there is no such stream.
        return True
    try:
        stream.flush()
    except Exception:  # noqa: BLE001  closed or detached: ValueError; of a user's own class, anything
        return False
    return True


def _text_stream(descriptor: int) -> io.TextIOWrapper:
    """Return a line-buffered Python stream on a descriptor. What cannot be encoded is escaped, never an error."""
    buffer = io.BufferedWriter(io.FileIO(descriptor, "w", closefd=False))
    return io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)
