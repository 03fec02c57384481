"""Looks at processes on the other hosts of a cluster, over SSH or by the scheduler.

Only ranks that have sent nothing for a while are looked at, so no process of ours needs to listen on each host: it
would be one more port to guard, and would itself be silent where the host is.

Runs on: kernel.
"""

from __future__ import annotations

import re
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from jupyter_ddl.launch.on_host import asking, on_host

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jupyter_ddl.launch.place import Place

# A host that answers at all does so within a second; one whose cable is cut, never.
_CONNECT_S = 3
_ANSWER_S = 8.0
_POLL_S = 0.02
# How long what a host said holds, and how long one that did not answer is not asked again.
_HOLDS_S = 2.0
_AGAIN_S = 5.0
_MOST_BYTES = 1 << 20
GONE, SILENT = "gone", "silent"
# What ssh says where nothing came back. All else that it says (refused, no such key) came from a host that is up.
_NOTHING_CAME = re.compile(r"timed out|No route to host|Network is unreachable|Host is down", re.IGNORECASE)


class RemoteProcesses:
    """The processes of ranks on the other hosts of one cluster. A host is asked for all of its own at once.

    Args:
        place: where the ranks are.
        hosts: each host's own name -> the name with which it was given.
        pids: returns the processes of the ranks on a host, by the host's own name.
        closed: set, by another thread, to stop looking.
    """

    def __init__(
        self,
        place: Place,
        hosts: Mapping[str, str],
        pids: Callable[[str], Iterable[int]],
        closed: threading.Event | None = None,
    ) -> None:
        self._place = place
        self._hosts = hosts
        self._pids = pids
        self._closed = closed or threading.Event()
        self._lock = threading.Lock()
        self._said: dict[str, _Said] = {}

    def look(self, hosts: Iterable[str]) -> None:
        """Ask hosts for their processes, all at once, but for those that were asked just now.

        Args:
            hosts: by their own names; those that are not the cluster's are left out.
        """
        with self._lock:
            now_s = time.monotonic()
            due = [host for host in set(hosts) & self._hosts.keys() if now_s >= self._until_s(host)]
            with ExitStack() as stack:
                asked = {host: stack.enter_context(self._asked(host)) for host in sorted(due)}
                self._wait(list(asked.values()), now_s + _ANSWER_S)
                said = {host: question.answer() for host, question in asked.items()}
            if not self._closed.is_set():
                self._said |= said

    def state_of(self, host: str, pid: int) -> str | None:
        """Return the letter of a process's state, as proc(5) has them; GONE, or SILENT where the host does not answer.

        None where the host is not one of the cluster's, cannot be asked, or says nothing of the process.

        Args:
            host: the host's own name.
            pid: the process there.
        """
        self.look([host])
        said = self._said.get(host)
        if said is None:
            return None
        return SILENT if said.is_silent else said.states.get(pid)

    def is_silent(self, host: str) -> bool:
        """Return whether a host did not answer when it was asked last: it is down, or its network is."""
        said = self._said.get(host)
        return said is not None and said.is_silent

    def _until_s(self, host: str) -> float:
        return self._said[host].until_s if host in self._said else 0.0

    @contextmanager
    def _asked(self, host: str) -> Iterator[_Question]:
        # The name before the state may hold anything, but ends at the last bracket.
        script = (
            f"for pid in {' '.join(map(str, self._pids(host)))}; do\n"
            f"echo $pid $(sed 's/.*) \\(.\\) .*/\\1/' /proc/$pid/stat 2>/dev/null || echo {GONE})\n"
            "done"
        )
        command = on_host(self._place, self._hosts[host], script, connect_s=_CONNECT_S)
        with (
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
            asking(command, output, errors) as process,
        ):
            yield _Question(process, output, errors)

    def _wait(self, asked: list[_Question], deadline_s: float) -> None:
        while any(question.process.poll() is None for question in asked):
            if time.monotonic() >= deadline_s or self._closed.wait(_POLL_S):
                return


@dataclass(frozen=True)
class _Said:
    """What a host said of its processes.

    Attributes:
        until_s: how long it holds, by the monotonic clock.
        is_silent: nothing came from it.
        states: PID -> state; empty where it cannot be asked.
    """

    until_s: float
    is_silent: bool
    states: dict[int, str]


@dataclass(frozen=True)
class _Question:
    """A host that is being asked."""

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]

    def answer(self) -> _Said:
        """Return what the host said so far."""
        status, now_s = self.process.poll(), time.monotonic()
        if status == 0:
            # A login may print other lines before.
            found = (re.fullmatch(r"(\d+) (\S+)", line) for line in _text_of(self.output).splitlines())
            return _Said(now_s + _HOLDS_S, False, {int(one[1]): one[2] for one in found if one is not None})
        is_silent = status is None or _NOTHING_CAME.search(_text_of(self.errors)) is not None
        return _Said(now_s + _AGAIN_S, is_silent, {})


def _text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MOST_BYTES).decode(errors="replace")
