"""Looks at processes on the other hosts of a cluster, over SSH or by the scheduler.

Only ranks that have sent nothing for a while are looked at, so no process of ours needs to wait on each host.

Runs on: kernel.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from jupyter_ddl.launch.on_host import asking, on_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jupyter_ddl.launch.place import Place

# A host that answers at all does so within a second; one whose cable is cut, never.
_CONNECT_S = 3
_ANSWER_S = 8.0
# How long what a host said holds, and how long one that did not answer is not asked again.
_HOLDS_S = 2.0
_AGAIN_S = 5.0
_MOST_BYTES = 1 << 20
GONE, SILENT = "gone", "silent"


class RemoteProcesses:
    """The processes of ranks on the other hosts of one cluster. A host is asked for all of its own at once.

    Args:
        place: where the ranks are.
        hosts: each host's own name -> the name with which it was given.
        pids: returns the processes of the ranks on a host, by the host's own name.
    """

    def __init__(self, place: Place, hosts: Mapping[str, str], pids: Callable[[str], Iterable[int]]) -> None:
        self._place = place
        self._hosts = hosts
        self._pids = pids
        self._said: dict[str, tuple[float, dict[int, str] | None]] = {}

    def state_of(self, host: str, pid: int) -> str | None:
        """Return the letter of a process's state, as proc(5) has them; GONE, or SILENT where the host does not answer.

        None where the host is not one of the cluster's, or says nothing of the process.

        Args:
            host: the host's own name.
            pid: the process there.
        """
        if host not in self._hosts:
            return None
        until_s, states = self._said.get(host, (0.0, None))
        if time.monotonic() >= until_s:
            states = self._ask(self._hosts[host], self._pids(host))
            self._said[host] = time.monotonic() + (_AGAIN_S if states is None else _HOLDS_S), states
        return SILENT if states is None else states.get(pid)

    def _ask(self, given: str, pids: Iterable[int]) -> dict[int, str] | None:
        """Return the states of processes on a host; None where it does not answer."""
        # The name before the state may hold anything, but ends at the last bracket.
        script = (
            f"for pid in {' '.join(map(str, pids))}; do\n"
            f"echo $pid $(sed 's/.*) \\(.\\) .*/\\1/' /proc/$pid/stat 2>/dev/null || echo {GONE})\n"
            "done"
        )
        command = on_host(self._place, given, script, connect_s=_CONNECT_S)
        with tempfile.TemporaryFile() as output, asking(command, output, subprocess.DEVNULL) as process:
            try:
                if process.wait(_ANSWER_S) != 0:
                    return None
            except subprocess.TimeoutExpired:
                return None
            output.seek(0)
            lines = output.read(_MOST_BYTES).decode(errors="replace").splitlines()
        # A login may print other lines before.
        found = (re.fullmatch(r"(\d+) (\S+)", line) for line in lines)
        return {int(one[1]): one[2] for one in found if one is not None}
