"""Holds a standby world, in a process that becomes its lease: `python -m jupyter_ddl.cluster.standby_lease`.

It starts the ranks, which import, and wait at its socket. Its standard input is the kernel's: the first line says what
to start, as JSON, and the line `begin` that the ranks are wanted, by a cluster whose folder the kernel has made since.
From there it is the cluster's lease (`cluster/lease.py`). Where the input closes, as it does when the kernel exits or
is killed, where the kernel is no more its parent, or mpiexec ends, it ends all that it has started.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths
from jupyter_ddl.cluster import lease, scratch
from jupyter_ddl.host import run_module
from jupyter_ddl.host.process_tree import adopt_orphans, end_descendants
from jupyter_ddl.protocol.standby import BEGIN, GO, READY

if TYPE_CHECKING:
    from collections.abc import Mapping

_TICK_S = 0.5


class Holder:
    """One standby world.

    Args:
        job: "command", "rank_command" and "environment" as `JobSettings` has them, "n", "socket", where the ranks wait,
            "log", for what mpiexec prints, and "kernel_pid".
    """

    def __init__(self, job: Mapping[str, Any]) -> None:
        self._job = job
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(job["socket"])
        self._listener.listen(job["n"])
        self._waiting: list[socket.socket] = []
        self._ready = 0
        with Path(job["log"]).open("ab") as log:
            self.mpiexec = subprocess.Popen(
                run_module.command("jupyter_ddl.host.process_tree", *job["command"], *job["rank_command"]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **job["environment"], paths.GATE_VARIABLE: job["socket"]},
                start_new_session=True,
            )

    def hold(self) -> bool:
        """Hold the ranks; return whether they are wanted, or else must end."""
        while True:
            readable, _, _ = select.select([sys.stdin.fileno(), self._listener, *self._waiting], [], [], _TICK_S)
            if sys.stdin.fileno() in readable:
                # No more: what follows is for the lease.
                return os.read(sys.stdin.fileno(), len(BEGIN)) == BEGIN
            if self._listener in readable:
                self._waiting.append(self._listener.accept()[0])
            for rank in [one for one in self._waiting if one in readable]:
                self._hear(rank)
            if self.mpiexec.poll() is not None or os.getppid() != self._job["kernel_pid"]:
                return False

    def _hear(self, rank: socket.socket) -> None:
        if rank.recv(len(READY)) != READY:
            # It has ended, and mpiexec with it.
            self._waiting.remove(rank)
            return
        self._ready += 1
        if self._ready == self._job["n"]:
            os.write(sys.stdout.fileno(), READY)

    def let_go(self) -> None:
        """Have the ranks begin."""
        for rank in self._waiting:
            with suppress(OSError), rank:
                rank.sendall(GO)
        self._listener.close()
        Path(self._job["socket"]).unlink(missing_ok=True)


def main() -> None:
    """Hold the ranks that the first line asks for, and then their cluster."""
    adopt_orphans()
    job = json.loads(_first_line())
    holder = Holder(job)
    if holder.hold():
        holder.let_go()
        lease.hold_cluster(job["name"], standing_by=lease.StandingBy(holder.mpiexec.pid, job["log"]))
        return
    end_descendants()
    scratch.clear(job["scratch"])
    Path(job["socket"]).unlink(missing_ok=True)
    Path(job["log"]).unlink(missing_ok=True)


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(sys.stdin.fileno(), 1)
        if not byte:
            sys.exit(0)
        line += byte
    return line


if __name__ == "__main__":
    main()
