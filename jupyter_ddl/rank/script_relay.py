"""`python -m jupyter_ddl.rank.script_relay PROGRAM ARGS...`: starts one rank of a script, and carries what it writes.

The rank's standard streams are pipes that end here, so what it wrote last is kept when it is killed. When it has ended,
the relay ends what it left behind, reports how it ended, waits until the terminal has all of that, and ends likewise:
mpiexec sees the rank's own end. Where the terminal is gone, or its host stays away, it ends the rank; and where the
rank holds more memory than its site allows.

Runs on: beside every rank of a script whose ranks are on several hosts.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import psutil
import zmq

from jupyter_ddl import paths
from jupyter_ddl.host import memory_watch, process_identity
from jupyter_ddl.host.process_tree import adopt_orphans, end_descendants, end_with_parent
from jupyter_ddl.host.rank_limits import RankLimits
from jupyter_ddl.protocol.codec import as_json, decode
from jupyter_ddl.protocol.script_frames import (
    BEAT,
    BYE,
    CHUNK_BYTES,
    END,
    EVENTS,
    HELLO,
    KEPT_MESSAGES,
    REQUEST,
    STDERR,
    STDOUT,
    Connection,
    Hello,
    RankEnded,
)
from jupyter_ddl.rank.terminal_watch import TerminalWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.faults import MemoryExcess

# mpiexec kills what has not ended a second after it was asked. Source: Open MPI's odls_base_sigkill_timeout
# Both since then: when the rank is killed, and when the terminal is waited for no more.
_GRACE_S = 0.4
_FAREWELL_S = 0.8
_TURN_S = 1.0


class Relay:
    """One rank's process, its pipes, and the socket to the terminal.

    Args:
        command: the rank's.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._asked_s: float | None = None
        self._has_asked_rank = self._is_done = False
        self._socket: zmq.Socket[bytes] | None = None
        self._terminal: TerminalWatch | None = None
        self._sent_s = 0.0
        self._unsent: deque[list[bytes]] = deque()
        self._to_rank = b""
        self._line = b""
        self._connection: Connection | None = None
        self._note_signals()
        self._oom_kills = _oom_kills()
        pipes = [os.pipe() for _ in range(4)]
        (out, rank_out), (err, rank_err), (events, rank_events), (rank_requests, self._requests) = pipes
        theirs = (rank_out, rank_err, rank_events, rank_requests)
        self._rank = subprocess.Popen(
            command, pass_fds=theirs, env={**os.environ, paths.PIPES_VARIABLE: ",".join(map(str, theirs))}
        )
        for descriptor in theirs:
            os.close(descriptor)
        # Output before events: what a rank printed before it sent an event is in its pipe by then.
        self._sources = {out: STDOUT, err: STDERR, events: EVENTS}
        for descriptor in (*self._sources, self._requests):
            os.set_blocking(descriptor, False)
        self._limit = _Limit.of_rank(self._rank.pid)
        self._excess: MemoryExcess | None = None

    def run(self) -> int:
        """Carry what the rank writes until it has ended; return its status, as `subprocess` has it."""
        while (status := self._rank.poll()) is None:
            self._end_if_asked()
            self._turn()
            if self._limit is not None and self._connection is not None and self._excess is None:
                self._excess = self._limit.kept(self._connection.rank)
        at_s = time.time()
        self._drain()
        self._end_what_is_left()
        self._drain()
        if self._connection is not None:
            ended = RankEnded(
                self._connection.rank,
                socket.gethostname(),
                self._rank.pid,
                at_s,
                status,
                _oom_kills() - self._oom_kills,
                self._asked_s is not None,
                self._excess,
            )
            self._unsent.append([END, as_json(ended)])
            while not self._is_done and not self._is_late(_FAREWELL_S):
                self._turn()
        return status

    def _note_signals(self) -> None:
        """Note that a signal asks us to end; any, and the rank's end, ends a turn."""
        self._wakes, writer = os.pipe()
        for descriptor in (self._wakes, writer):
            os.set_blocking(descriptor, False)
        signal.set_wakeup_fd(writer)

        def note(_signum: int, _frame: object) -> None:
            self._asked_s = self._asked_s or time.monotonic()

        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, note)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def _is_late(self, grace_s: float) -> bool:
        return self._asked_s is not None and time.monotonic() > self._asked_s + grace_s

    def _end_if_asked(self) -> None:
        if self._is_late(_GRACE_S):
            self._rank.kill()
        elif self._asked_s is not None and not self._has_asked_rank:
            self._has_asked_rank = True
            self._rank.terminate()
            # One that is stopped handles it when this resumes it.
            self._rank.send_signal(signal.SIGCONT)

    def _end_what_is_left(self) -> None:
        if self._asked_s is None:
            end_descendants()
            return
        for process in psutil.Process().children(recursive=True):
            process.kill()

    def _turn(self, wait_s: float = _TURN_S) -> bool:
        """Carry what can be carried within a time; return whether a source had something."""
        poller = zmq.Poller()
        poller.register(self._wakes, zmq.POLLIN)
        if self._socket is not None:
            poller.register(self._socket, zmq.POLLIN | (zmq.POLLOUT if self._unsent else 0))
        if self._terminal is not None and self._asked_s is None:
            poller.register(self._terminal.events, zmq.POLLIN)
        if self._to_rank:
            poller.register(self._requests, zmq.POLLOUT)
        # What the terminal does not take yet stays in the pipes, and the rank waits.
        sources = {} if self._unsent and self._socket is not None else self._open_sources()
        for descriptor in sources:
            poller.register(descriptor, zmq.POLLIN)
        wait_s = min(wait_s, _GRACE_S / 4) if self._asked_s is not None else wait_s
        ready: dict[Any, int] = dict(poller.poll(int(wait_s * 1000)))
        if self._wakes in ready:
            os.read(self._wakes, CHUNK_BYTES)
        if self._socket in ready:
            self._receive()
        if self._terminal is not None and self._terminal.events in ready:
            # What the rank still prints is read nowhere.
            self._asked_s = time.monotonic()
        self._write_to_rank()
        # Output may have come after the poll looked at its pipe, and the event that followed it before it looked there.
        has_events = any(kind == EVENTS and descriptor in ready for descriptor, kind in sources.items())
        found = [
            self._read(descriptor, kind) for descriptor, kind in sources.items() if has_events or descriptor in ready
        ]
        if not self._unsent and self._socket is not None and time.monotonic() - self._sent_s >= _TURN_S:
            self._unsent.append([BEAT, b""])
        self._send()
        return any(found)

    def _open_sources(self) -> dict[int, bytes]:
        """Return what is read now: before the rank has said where the terminal is, only that."""
        if self._connection is not None:
            return dict(self._sources)
        return {descriptor: kind for descriptor, kind in self._sources.items() if kind == EVENTS}

    def _drain(self) -> None:
        """Carry all that is in the pipes, while the terminal takes it."""
        while (self._turn(0.0) or self._unsent) and not self._is_late(_FAREWELL_S):
            if self._unsent:
                self._turn()

    def _read(self, descriptor: int, kind: bytes) -> bool:
        try:
            data = os.read(descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not data:
            # No process holds its other end now.
            del self._sources[descriptor]
            os.close(descriptor)
            return False
        if self._connection is None:
            self._line += data
            line, end, data = self._line.partition(b"\n")
            if not end:
                return True
            self._connect(decode(line, Connection))
            # An event may have come with that line, and what the rank printed before it is in its pipes.
            for output, stream in list(self._sources.items()):
                if stream != EVENTS:
                    self._read(output, stream)
        if data:
            self._unsent.append([kind, data])
        return True

    def _connect(self, connection: Connection) -> None:
        self._connection = connection
        context = zmq.Context()
        self._socket = made = context.socket(zmq.DEALER)
        made.setsockopt(zmq.SNDHWM, KEPT_MESSAGES)
        made.setsockopt(zmq.LINGER, 0)
        made.setsockopt(zmq.IPV6, 1)
        made.curve_publickey, made.curve_secretkey = zmq.curve_keypair()
        made.curve_serverkey = connection.server_key.encode()
        made.connect(connection.address)
        self._terminal = TerminalWatch(context, connection)
        hello = Hello(connection.token, connection.rank, socket.gethostname())
        self._unsent.append([HELLO, as_json(hello)])

    def _send(self) -> None:
        while self._unsent and self._socket is not None:
            try:
                self._socket.send_multipart(self._unsent[0], zmq.NOBLOCK)
            except zmq.Again:
                return
            self._unsent.popleft()
            self._sent_s = time.monotonic()

    def _receive(self) -> None:
        assert self._socket is not None
        while True:
            try:
                kind, *content = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            if kind == BYE:
                self._is_done = True
            elif kind == REQUEST:
                self._to_rank += content[0]

    def _write_to_rank(self) -> None:
        try:
            while self._to_rank:
                self._to_rank = self._to_rank[os.write(self._requests, self._to_rank) :]
        except BlockingIOError:
            # It does not read at the moment.
            return
        except BrokenPipeError:
            self._to_rank = b""


class _Limit:
    """What the rank may hold.

    Args:
        limits: as the site says.
        own: the rank's PID and the start of its process.
        run: that it belongs to.
    """

    def __init__(self, limits: RankLimits, own: tuple[int, int], run: str) -> None:
        self._limits = limits
        self._rank = -1
        self._watch = limits.watch(lambda: {self._rank: own}, run)
        self._next_s = 0.0

    @classmethod
    def of_rank(cls, pid: int) -> _Limit | None:
        """Return that of a rank that was just started; None where it has none."""
        request = json.loads(os.environ.get(paths.SCRIPT_VARIABLE, "{}"))
        limits, identity = RankLimits.in_record(request), process_identity.of(pid)
        if limits is None or identity is None:
            return None
        return cls(limits, (pid, identity["start_ticks"]), request["run"])

    def kept(self, rank: int) -> MemoryExcess | None:
        """End the rank where it holds too much, looking once every `TICK_S`; return what it held, None for no end."""
        if time.monotonic() < self._next_s:
            return None
        self._next_s, self._rank = time.monotonic() + memory_watch.TICK_S, rank
        excess = self._watch.due()
        if excess is None:
            return None
        self._watch.end(excess)
        return self._limits.record(excess)


def _oom_kills() -> int:
    """Return how often the Linux kernel of this host has ended a process for lack of memory."""
    try:
        with open("/proc/vmstat", encoding="ascii") as file:  # noqa: PTH123  no pathlib beside each rank for one file
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0


def main() -> int:
    """Relay one rank, and end as it did."""
    # A daemon of mpiexec's that dies lets us end the rank, and what that left.
    end_with_parent(signal.SIGTERM)
    adopt_orphans()
    status = Relay(sys.argv[1:]).run()
    if status < 0:
        # No core file of ours beside the rank's.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    sys.exit(main())
