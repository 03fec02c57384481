"""A cluster's folder: what the kernel, the lease and a second kernel know of it.

CLUSTERS/NAME/              0700
cluster.json            what was asked for, and the world's id; written by the kernel that starts it
lease.json              the lease's process; written by the lease
ended.json              how it ended; written by the lease
security/               ipyparallel's connection files, 0600
log/                    what controller, mpiexec and ranks print outside cells
"""

from __future__ import annotations

import fcntl
import json
import shutil
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl import paths
from jupyter_ddl.cluster.deaths import Death
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class Ending:
    """How a cluster ended.

    Attributes:
        asked: it was stopped, by its user or with its kernel.
        cause: the sentence for the user.
        death: of the rank that ended first, where mpiexec names it.
        oom_kills: how often the Linux kernel ended a process for want of memory while the cluster ran.
    """

    asked: bool
    cause: str
    at_s: float
    death: Death | None = None
    oom_kills: int = 0

    def to_json(self) -> str:
        """Return it as one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> Ending:
        """Return what `to_json` wrote."""
        fields = json.loads(text)
        return cls(**{**fields, "death": fields["death"] and Death(**fields["death"])})


class ClusterFolder:
    """One cluster's folder, by name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = paths.clusters_dir() / name

    @property
    def connection_file(self) -> Path:
        """Ipyparallel's connection file for clients; there once the controller listens."""
        return self.path / "security" / "ipcontroller-client.json"

    @property
    def engine_connection_file(self) -> Path:
        """Ipyparallel's connection file for engines."""
        return self.path / "security" / "ipcontroller-engine.json"

    @property
    def log_dir(self) -> Path:
        """Where controller and mpiexec print."""
        return self.path / "log"

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Hold the name while a cluster of it starts, against every other process and thread of this host.

        Raises:
            InvalidInput: another one of that name starts at this moment.
        """
        clusters = paths.private_folder(paths.clusters_dir(), variable=paths.RUNTIME_VARIABLE)
        locks = paths.private_folder(clusters.parent / "starting", variable=paths.RUNTIME_VARIABLE)
        with (locks / self.name).open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise InvalidInput(
                    "A cluster's name is its own.",
                    f"name={self.name!r}, of which one starts at this moment",
                    f"Wait until it runs and use it with %ddl attach {self.name}, or pass --name to start another.",
                ) from error
            except OSError:
                # A file system without locks (some network file systems): two of one name are then not told apart.
                pass
            yield

    def create(self, spec: ClusterSpec, settings: dict[str, Any]) -> None:
        """Make the folder anew for a cluster that is about to start; what a dead one of the name left is removed."""
        self.remove()
        paths.private_folder(self.path, variable=paths.RUNTIME_VARIABLE)
        for name in ("security", "log", "pid", "startup"):
            (self.path / name).mkdir(mode=0o700)
        self._write("cluster.json", {"spec": json.loads(spec.to_json()), **settings})

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def spec(self) -> ClusterSpec:
        """Return what was asked for."""
        return ClusterSpec.from_json(json.dumps(self.settings()["spec"]))

    def settings(self) -> dict[str, Any]:
        """Return cluster.json."""
        return self._read("cluster.json") or {}

    def write_lease(self) -> None:
        """Record the calling process as the cluster's lease."""
        process = psutil.Process()
        self._write("lease.json", {"pid": process.pid, "create_time": process.create_time()})

    def lease(self) -> psutil.Process | None:
        """Return the lease's process if it lives: the same process, not another that got its number."""
        record = self._read("lease.json")
        if record is None:
            return None
        try:
            process = psutil.Process(record["pid"])
            same = abs(process.create_time() - record["create_time"]) < 0.01
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def is_orphan(self) -> bool:
        """Return whether it runs though the kernel that started it is gone: its lease then has another parent."""
        lease = self.lease()
        try:
            return lease is not None and lease.ppid() != self.settings().get("kernel_pid")
        except psutil.NoSuchProcess:
            return False

    def write_ending(self, ending: Ending) -> None:
        """Record how the cluster ended."""
        self._write("ended.json", asdict(ending))

    def ending(self) -> Ending | None:
        """Return how the cluster ended, or None."""
        record = self._read("ended.json")
        return Ending.from_json(json.dumps(record)) if record else None

    def _write(self, name: str, content: dict[str, Any]) -> None:
        # Renamed into place: a reader finds all of it or nothing.
        partial = self.path / f".{name}"
        partial.touch(mode=0o600)
        partial.write_text(json.dumps(content, indent=1))
        partial.replace(self.path / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content: dict[str, Any] = json.loads((self.path / name).read_text())
        except FileNotFoundError:
            return None
        return content


def running() -> Iterator[ClusterFolder]:
    """Yield the folder of each cluster of this user's that runs on this host, by name."""
    try:
        entries = sorted(paths.clusters_dir().iterdir())
    except FileNotFoundError:
        return
    for entry in entries:
        folder = ClusterFolder(entry.name)
        if folder.lease() is not None:
            yield folder


def kept() -> Iterator[ClusterFolder]:
    """Yield the folder of each cluster that runs with `--keep` though the kernel that started it is gone, by name."""
    for folder in running():
        # Its lease may have ended meanwhile, and the folder with it.
        if folder.is_orphan() and folder.settings() and folder.spec().keep:
            yield folder
