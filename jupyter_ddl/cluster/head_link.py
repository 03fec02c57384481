"""Stands in the place of a lease on another host: `... -m jupyter_ddl.cluster.head_link HOST KEEP MIRROR SSH...`.

It runs ssh, which runs `head` there, and passes on what the kernel and the lease write to each other. Beside that it

- sends a sign of life, so that the lease knows of a connection that is cut,
- says how the cluster ended where the connection ends, and the lease could not,
- waits for no lease that does not answer,
- where the hosts share no folder with this one, brings what ranks left there, as a lease does, and has the lease end
  ranks that are idle: their use is seen here.

It ends with its kernel: its standard input closes then. ssh closes the lease's, and the ranks end, unless they are
kept.

Runs on: the kernel's host.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import mirrors
from jupyter_ddl.cluster.folder import ClusterFolder, ending_of
from jupyter_ddl.cluster.idle_watch import IdleWatch
from jupyter_ddl.cluster.lease_process import LOST
from jupyter_ddl.protocol.faults import Facts, Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BEAT_S = 5.0
# How long the lease may take to report an end that was requested; the kernel waits a little longer for this process.
_LOST_S = 3.0
_STOP_S = 15.0
_GONE_S = 60.0
# ssh has passed on by then that the input has closed.
_KEPT_S = 1.0
_READ_BYTES = 1 << 16
_MOST_BYTES = 4096
_BEGUN, _FAILED, _ENDING = b'{"begun"', b'{"failed"', b'{"kind"'
# Whether the ranks outlive the kernel.
KEEP, END = "keep", "end"


class HeadLink:
    """The connection to one lease.

    Args:
        host: where it is, as it was given.
        command: ssh and the rest.
        keep: the ranks outlive the kernel.
        mirror: the folder that stands for the cluster's; None where that is seen here.
    """

    def __init__(self, host: str, command: Sequence[str], *, keep: bool, mirror: ClusterFolder | None = None) -> None:
        self._host = host
        self._mirror = mirror
        self._keep = keep
        self._ssh = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        self._selector = selectors.DefaultSelector()
        self._from_kernel = b""
        self._from_lease = b""
        self._said = b""
        self._has_begun = False
        self._has_answered = False
        self._ending: Fault | None = None
        self._deadline_s: float | None = None
        self._next_beat_s = time.monotonic() + _BEAT_S
        self._idle: IdleWatch | None = None

    def run(self) -> None:
        """Pass on what comes until ssh has ended, and say what is left to say."""
        assert self._ssh.stdout is not None
        assert self._ssh.stderr is not None
        self._watch(sys.stdin.fileno(), self._on_kernel)
        self._watch(self._ssh.stdout.fileno(), self._on_lease)
        self._watch(self._ssh.stderr.fileno(), self._on_ssh)
        theirs = {self._ssh.stdout.fileno(), self._ssh.stderr.fileno()}
        while theirs & set(self._selector.get_map()):
            for key, _ in self._selector.select(self._pause_s()):
                key.data(os.read(key.fd, _READ_BYTES), key.fd)
            self._tick()
        self._conclude(self._ssh.wait())
        if self._mirror is not None and self._has_begun:
            mirrors.bring_all(self._mirror)
            mirrors.conclude(self._mirror, self._ending or Fault("lost", "lease", at_s=time.time()))

    def _watch(self, descriptor: int, take: Callable[[bytes, int], None]) -> None:
        self._selector.register(descriptor, selectors.EVENT_READ, take)

    def _pause_s(self) -> float:
        until_s = self._next_beat_s if self._deadline_s is None else min(self._next_beat_s, self._deadline_s)
        return max(0.0, until_s - time.monotonic())

    def _tick(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_beat_s:
            self._next_beat_s = now_s + _BEAT_S
            self._pass_on(b"\n")
            self._end_idle()
        if self._deadline_s is not None and now_s >= self._deadline_s:
            self._deadline_s = None
            self._ssh.kill()

    def _end_idle(self) -> None:
        """Have the lease end ranks that are idle."""
        if self._mirror is None or not self._mirror.connection_file.exists() or self._ending is not None:
            return
        self._idle = self._idle or IdleWatch.of(self._mirror)
        ending = None if self._idle is None else self._idle.due()
        if ending is not None:
            self._ending = ending
            self._end_in(_STOP_S)
            self._pass_on(LOST + json.dumps(asdict(ending)).encode() + b"\n")

    def _end_in(self, seconds: float) -> None:
        """Wait so long for ssh, and for no longer than before."""
        deadline_s = time.monotonic() + seconds
        self._deadline_s = deadline_s if self._deadline_s is None else min(self._deadline_s, deadline_s)

    # What comes from the kernel.

    def _on_kernel(self, data: bytes, descriptor: int) -> None:
        if not data:
            self._selector.unregister(descriptor)
            assert self._ssh.stdin is not None
            self._ssh.stdin.close()
            is_kept = self._keep and self._ending is None
            # ssh would wait for what is kept.
            self._end_in(_KEPT_S if is_kept else _GONE_S)
            return
        *lines, self._from_kernel = (self._from_kernel + data).split(b"\n")
        for line in lines:
            self._note(line)
            # In whole lines: a sign of life comes between them.
            self._pass_on(line + b"\n")

    def _note(self, line: bytes) -> None:
        """Note what the kernel asks of the lease, for the case that this does not answer."""
        if line.startswith(LOST):
            self._ending = ending_of(line[len(LOST) :])
            self._end_in(_LOST_S)
        elif line == b"stop":
            self._ending = Fault("stopped", "user", at_s=time.time())
            self._end_in(_STOP_S)

    def _pass_on(self, data: bytes) -> None:
        assert self._ssh.stdin is not None
        if self._ssh.stdin.closed:
            return
        try:
            while data:
                data = data[self._ssh.stdin.write(data) :]
        except BrokenPipeError:
            # ssh has ended, which its output says.
            return

    # What comes from the other end.

    def _on_lease(self, data: bytes, descriptor: int) -> None:
        if not data:
            self._selector.unregister(descriptor)
            return
        *lines, self._from_lease = (self._from_lease + data).split(b"\n")
        for line in lines:
            if self._has_begun and line.startswith(_ENDING):
                self._has_answered = True
                self._ending = ending_of(line)
            elif line.startswith(_FAILED):
                self._has_answered = True
            elif line.startswith(_BEGUN):
                # What a login printed says nothing of the connection's end.
                self._has_begun, self._said = True, b""
            _say(line)

    def _on_ssh(self, data: bytes, descriptor: int) -> None:
        if not data:
            self._selector.unregister(descriptor)
        self._said = (self._said + data)[-_MOST_BYTES:]

    def _conclude(self, status: int) -> None:
        if self._has_answered:
            return
        said = " ".join(self._said.decode(errors="replace").split())
        if not self._has_begun:
            _say(json.dumps({"unreached": status, "said": self._said.decode(errors="replace")}).encode())
            return
        if status < 0 and not said:
            said = f"ssh was ended by signal {-status}"
        if self._ending is None and said:
            facts = Facts(error=said)
            self._ending = Fault("lost", "connection", host=self._host, at_s=time.time(), facts=facts)
        self._ending = self._ending or Fault("lost", "lease", at_s=time.time())
        _say(json.dumps(asdict(self._ending)).encode())


def _say(line: bytes) -> None:
    data = line + b"\n"
    try:
        while data:
            data = data[os.write(sys.stdout.fileno(), data) :]
    except BrokenPipeError:
        # The kernel is gone.
        return


def main() -> None:
    """Hold the connection that the command line names."""
    host, keep, stored, *command = sys.argv[1:]
    mirror = ClusterFolder(Path(stored).name, Path(stored).parent) if stored else None
    HeadLink(host, command, keep=keep == KEEP, mirror=mirror).run()


if __name__ == "__main__":
    main()
