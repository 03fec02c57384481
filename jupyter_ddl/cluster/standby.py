"""Keeps a standby world: ranks that have imported and wait, to take the place of those that are lost or restarted.

It is made when the ranks have imported and no cell has run for a moment, at low priority, where memory allows; and
ended at once where memory gets short. It touches no GPU before it is wanted. It takes over where it is what a new start
would make: the same spec, folder and variables, and no package installed since. It ends with the kernel; after a stop
it stays a minute, for the next start.

Runs on: kernel.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl import paths
from jupyter_ddl.cluster import scratch
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.job_settings import settle
from jupyter_ddl.host import mpi, run_module
from jupyter_ddl.host.cores import memory_limit_bytes
from jupyter_ddl.host.free_memory import available_bytes
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.host.threads import Supervised
from jupyter_ddl.protocol.standby import AUTO, BEGIN, READY

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.lifecycle import Cluster
    from jupyter_ddl.cluster.spec import ClusterSpec

_TICK_S = 0.5
# How long no cell has run before a world is made, and how long one stays that no ranks use.
_IDLE_S, _LINGERS_S = 3.0, 60.0
# Of the memory that this kernel may use: what must be left when a world is made, and before it is ended.
_LEFT_WHEN_MADE, _LEFT_WHILE_KEPT = 0.25, 0.1
_ENDS_S = 10.0
# A unix socket's path has at most 107 bytes.
_LONGEST_PATH = 100


@dataclass(frozen=True)
class World:
    """A standby world.

    Attributes:
        key: what a start must have in common with it.
        record: what cluster.json says of it, once it is the cluster's.
        process: what holds it, and becomes its lease.
        is_ready: set when all ranks wait.
    """

    key: object
    record: dict[str, Any]
    process: subprocess.Popen[bytes]
    is_ready: threading.Event

    def begin(self) -> subprocess.Popen[bytes]:
        """Have the ranks begin, in the cluster whose folder has `record`; return their lease."""
        assert self.process.stdin is not None
        self.process.stdin.write(BEGIN)
        self.process.stdin.flush()
        return self.process

    def end(self) -> None:
        """End the ranks, and wait until they are gone."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(_ENDS_S)
        except subprocess.TimeoutExpired:
            # Its ranks and mpiexec end with it.
            self.process.kill()
            self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        # It has cleared them, unless it was killed.
        scratch.clear(self.record["scratch"])


class Standby:
    """The standby world of one kernel. Safe to use from any thread.

    Args:
        available: returns the free memory in bytes.
    """

    def __init__(self, available: Callable[[], int] = available_bytes) -> None:
        self._available = available
        self._lock = threading.Lock()
        self._world: World | None = None
        # What watches the ranks that began last.
        self._watched: Cluster | None = None

    @property
    def pid(self) -> int | None:
        """The process that holds the world, once its ranks wait; None where there is none."""
        world = self._world
        return None if world is None or not world.is_ready.is_set() else world.process.pid

    def take(self, spec: ClusterSpec) -> World | None:
        """Return a world that is ready for these ranks, which is the caller's from here on; None where there is none.

        One that is for others, or still imports, is ended: it would only take memory, and cores, from the new ranks.
        """
        with self._lock:
            world, self._world = self._world, None
        if world is None:
            return None
        if world.is_ready.is_set() and world.process.poll() is None and world.key == _key(spec):
            return world
        world.end()
        return None

    def follow(self, cluster: Cluster) -> None:
        """Make a world beside these ranks once they are idle, where their spec allows it."""
        self._watched = cluster
        if is_possible(cluster.spec):
            # What it raises is printed: the ranks do without.
            Supervised(self._watch, "jupyter_ddl standby", lambda _: self.end(), (cluster,)).start()

    def end(self) -> None:
        """End the world, if there is one."""
        with self._lock:
            world, self._world = self._world, None
        if world is not None:
            world.end()

    def _watch(self, cluster: Cluster) -> None:
        idle_since_s = time.monotonic()
        while cluster.lost is None and cluster.is_running():
            time.sleep(_TICK_S)
            if self._watched is not cluster:
                return
            now_s = time.monotonic()
            if cluster.use.is_held or len(cluster.warm) < cluster.world_size:
                idle_since_s = now_s
            if self._world is not None:
                self._check()
            elif now_s - idle_since_s > _IDLE_S and self._has_room(cluster):
                self._make(cluster)
        ends_s = time.monotonic() + _LINGERS_S
        while self._watched is cluster and self._world is not None:
            time.sleep(_TICK_S)
            self._check()
            if time.monotonic() > ends_s:
                self.end()

    def _has_room(self, cluster: Cluster) -> bool:
        taken = 0
        for ready in cluster.ranks.values():
            with suppress(psutil.Error):
                taken += psutil.Process(ready.pid).memory_info().rss
        return self._available() - taken > _LEFT_WHEN_MADE * memory_limit_bytes()

    def _check(self) -> None:
        """End the world where memory is short, or one of its processes has ended."""
        world = self._world
        is_dead = world is not None and world.process.poll() is not None
        if is_dead or self._available() < _LEFT_WHILE_KEPT * memory_limit_bytes():
            self.end()

    def _make(self, cluster: Cluster) -> None:
        world = _started(cluster.spec)
        if world is None:
            self._watched = None
            return
        with self._lock:
            self._world = world
        while not world.is_ready.is_set():
            if _says_ready(world.process):
                world.is_ready.set()
            elif world.process.poll() is not None:
                # It could not start; the ranks do without.
                self._watched = None
                self.end()
                return
            elif self._world is not world:
                return
            self._check()


def is_possible(spec: ClusterSpec) -> bool:
    """Return whether ranks may have a standby world: it is wanted, and they are all on this host, in no image."""
    return spec.standby == AUTO and spec.place.is_here and spec.place.container is None and spec.served is None


def _key(spec: ClusterSpec) -> object:
    """Return all that decides what a start of these ranks makes."""
    installed = tuple(
        (folder, os.stat(folder).st_mtime_ns)  # noqa: PTH116
        for folder in sys.path
        if folder.endswith("-packages") and Path(folder).is_dir()
    )
    return (
        replace(spec, note="", idle_stop=None, keep_variables=False),
        str(Path.cwd()),
        dict(os.environ),
        installed,
    )


def _started(spec: ClusterSpec) -> World | None:
    """Start a standby world; return None where it cannot be."""
    folder = private_folder(paths.clusters_dir().parent / "standby", variable=paths.RUNTIME_VARIABLE)
    world_id = secrets.token_hex(4)
    gate, log = folder / f"{world_id}.sock", folder / f"{world_id}.log"
    if len(os.fsencode(gate)) > _LONGEST_PATH:
        return None
    key = _key(spec)
    settings = settle(spec, mpi.find_mpi(), ClusterFolder(spec.name), world_id, [])
    record = {"world_id": world_id, "kernel_pid": os.getpid(), **settings.to_record()}
    job = {**record, "name": spec.name, "n": spec.n, "socket": str(gate), "log": str(log)}
    with log.open("ab") as output:
        process = subprocess.Popen(
            run_module.command("jupyter_ddl.cluster.standby_lease"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            start_new_session=True,
        )
    assert process.stdin is not None
    process.stdin.write(json.dumps(job).encode() + b"\n")
    process.stdin.flush()
    return World(key, record, process, threading.Event())


def _says_ready(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a moment; return whether all ranks of a world wait."""
    assert process.stdout is not None
    with suppress(ValueError, OSError):  # ended, and closed, meanwhile
        poller = select.poll()
        poller.register(process.stdout, select.POLLIN)
        # Not by the buffered reader: what follows is for the cluster's supervisor.
        return bool(poller.poll(_TICK_S * 1000)) and os.read(process.stdout.fileno(), len(READY)) == READY
    return False
