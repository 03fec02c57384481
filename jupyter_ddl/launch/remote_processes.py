"""Looks at processes on the other hosts of a cluster, over SSH or by the scheduler.

Only ranks that have sent nothing for a while are looked at, so no process of ours needs to wait on each host.

Runs on: kernel.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

from jupyter_ddl.launch.on_host import asking, on_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.place import Place

# A host that answers at all does so within a second; one whose cable is cut, never.
_CONNECT_S = 3
_ANSWER_S = 8.0
# How long a host that did not answer is not asked again.
_AGAIN_S = 5.0
_MOST_BYTES = 1 << 16
GONE, SILENT = "gone", "silent"


class RemoteProcesses:
    """The processes on the other hosts of one cluster.

    Args:
        place: where the ranks are.
        hosts: each host's own name -> the name with which it was given.
    """

    def __init__(self, place: Place, hosts: Mapping[str, str]) -> None:
        self._place = place
        self._hosts = hosts
        self._silent_s: dict[str, float] = {}

    def state_of(self, host: str, pid: int) -> str | None:
        """Return the letter of a process's state, as proc(5) has them; GONE, or SILENT where the host does not answer.

        None where the host is not one of the cluster's, or its answer says nothing.

        Args:
            host: the host's own name.
            pid: the process there.
        """
        given = self._hosts.get(host)
        if given is None:
            return None
        if time.monotonic() - self._silent_s.get(host, -_AGAIN_S) < _AGAIN_S:
            return SILENT
        state = self._ask(given, pid)
        if state == SILENT:
            self._silent_s[host] = time.monotonic()
        return state

    def _ask(self, given: str, pid: int) -> str | None:
        # The name before the state may hold anything, but ends at the last bracket.
        script = f"sed 's/.*) \\(.\\) .*/\\1/' /proc/{pid}/stat 2>/dev/null || echo {GONE}"
        command = on_host(self._place, given, script, connect_s=_CONNECT_S)
        with tempfile.TemporaryFile() as output, asking(command, output, subprocess.DEVNULL) as process:
            try:
                status = process.wait(_ANSWER_S)
            except subprocess.TimeoutExpired:
                return SILENT
            output.seek(0)
            words = output.read(_MOST_BYTES).decode(errors="replace").split()
        # What a login prints comes before it.
        return SILENT if status != 0 else words[-1] if words else None
