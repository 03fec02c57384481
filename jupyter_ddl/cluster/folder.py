"""Reads and writes a cluster's folder: what the kernel, the lease and a second kernel know of the cluster.

CLUSTERS/HOST-ID/NAME/      0700
cluster.json            what was requested, and the world's id; written by the kernel that starts it
lease.json              the lease's process; written by the lease
lease.lock              locked while the lease lives
use.lock                locked while a kernel uses the ranks
ended.json              how it ended; written by the lease
security/               ipyparallel's connection files, 0600
log/                    what controller, mpiexec and ranks print outside cells

HOST-ID names this host or container alone (`registry`): only there is a cluster found, ended, or its folder removed.

What is read is this user's own, in folders that no other user can write to: a lease runs what cluster.json says.
"""

from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import psutil

from jupyter_ddl import paths
from jupyter_ddl.cluster import registry
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.cluster.use_lock import make_use_lock
from jupyter_ddl.errors import FolderNotWritable, InvalidInput, NoCluster
from jupyter_ddl.host import files, process_identity, untrusted_files
from jupyter_ddl.host.private_folders import check_private, is_private, private_folder
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.faults import Fault, loss_in_words
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def ending_of(text: str | bytes) -> Fault:
    """Return how a cluster ended, from the line of JSON in which its lease reports it.

    Raises:
        ValueError: it is something else.
    """
    content = parse_json(text)
    if isinstance(content, dict) and isinstance(content.get("cause"), str) and "kind" not in content:
        # The lease of an older version, which outlived its kernel.
        return _ending_in_words(content)
    return record_of(Fault, content)


def _ending_in_words(content: dict[str, Any]) -> Fault:
    death = content.get("death") or {}
    rank = death.get("rank")
    known = {"at_s": content.get("at_s", 0.0), "oom_kills": content.get("oom_kills", 0)}
    known |= {name: death.get(name) for name in ("host", "signum")}
    asked = content.get("asked") is True
    return loss_in_words(content["cause"], () if rank is None else (rank,), asked=asked, **known)


class ClusterFolder:
    """One cluster's folder, by name.

    Args:
        name: the cluster's.
        clusters: the folder of the clusters of its host; by default of this one.
    """

    def __init__(self, name: str, clusters: Path | None = None) -> None:
        self.name = name
        self.path = (clusters or registry.here()) / name

    @property
    def is_elsewhere(self) -> bool:
        """Whether its cluster is another host's, where PIDs mean nothing here."""
        return self.path.parent != registry.here()

    @property
    def connection_file(self) -> Path:
        """Ipyparallel's connection file for clients; it exists once the controller listens."""
        return self.path / "security" / "ipcontroller-client.json"

    @property
    def engine_connection_file(self) -> Path:
        """Ipyparallel's connection file for engines."""
        return self.path / "security" / "ipcontroller-engine.json"

    @property
    def log_dir(self) -> Path:
        """The folder of what controller and mpiexec print."""
        return self.path / "log"

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Reserve the name while a cluster of it starts, against every other process and thread of this host.

        Raises:
            InvalidInput: another cluster of that name is starting.
        """
        clusters = private_folder(paths.clusters_dir(), variable=paths.RUNTIME_VARIABLE)
        here = private_folder(self.path.parent, variable=paths.RUNTIME_VARIABLE)
        locks = private_folder(clusters.parent / "starting", variable=paths.RUNTIME_VARIABLE)
        with files.open_to_lock(locks / f"{here.name}-{self.name}") as file:
            try:
                files.lock(file, wait=False)
            except BlockingIOError as error:
                raise InvalidInput(
                    "A cluster's name is its own.",
                    f"name={self.name!r}, of which one starts at this moment",
                    f"Wait until it runs and use it with %ddl attach {self.name}, or pass --name to start another.",
                ) from error
            except OSError:
                # A file system without locks (some network file systems): two of one name can then start at once.
                pass
            yield

    def create(self, spec: ClusterSpec, settings: dict[str, Any]) -> None:
        """Make an empty folder for a cluster that is about to start; what a dead one of that name left is removed.

        Raises:
            FolderNotWritable: it cannot be made.
        """
        previous = {"world_id": self.settings().get("world_id"), "ending": self._read("ended.json")}
        self.remove()
        try:
            # An error where it exists: what could not be removed is not reused.
            private_folder(self.path.parent, variable=paths.RUNTIME_VARIABLE)
            self.path.mkdir(mode=0o700)
            for name in ("security", "log", "pid", "startup"):
                (self.path / name).mkdir(mode=0o700)
            make_use_lock(self.path)
        except FolderNotWritable:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise FolderNotWritable(self.path, paths.RUNTIME_VARIABLE, reason) from error
        self._write("cluster.json", {"spec": json.loads(spec.to_json()), "previous": previous, **settings})

    def remove(self) -> None:
        """Remove the folder and what is in it."""
        shutil.rmtree(self.path, ignore_errors=True)

    def spec(self) -> ClusterSpec:
        """Return the spec with which the cluster was started.

        Raises:
            ValueError: the folder has none.
        """
        try:
            return ClusterSpec.from_json(json.dumps(self.settings()["spec"]))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{self.path / 'cluster.json'} must hold a cluster's spec.") from error

    def settings(self) -> dict[str, Any]:
        """Return what cluster.json holds; an empty dict where it is missing, or not one of ours."""
        return self._read("cluster.json") or {}

    def write_lease(self) -> None:
        """Record the calling process as the cluster's lease, for as long as it lives.

        Runs on: the lease.
        """
        registry.hold_lock(self.path)
        self._write("lease.json", process_identity.own())

    def lease(self) -> psutil.Process | None:
        """Return the lease's process if it lives: the same process, not another with its PID."""
        record = self._read("lease.json")
        if record is None or not process_identity.lives(record):
            return None
        try:
            return psutil.Process(record["pid"])
        except psutil.NoSuchProcess:
            # It has ended since.
            return None

    def runs(self) -> bool:
        """Return whether the cluster runs, on whichever host: by its lease's process here, by its lock elsewhere."""
        return registry.host_of(self.path) is not None if self.is_elsewhere else self.lease() is not None

    def is_usable(self) -> bool:
        """Return whether cluster.json has what a kernel needs to use the cluster."""
        settings = self.settings()
        try:
            spec = self.spec()
        except ValueError:
            return False
        is_spec = isinstance(spec.n, int) and all(isinstance(device, str) for device in spec.devices)
        return is_spec and isinstance(settings.get("kernel_pid"), int)

    def check_private(self) -> None:
        """Check that no other user can write to the folder, or replace it.

        Raises:
            FolderNotPrivate: one can.
        """
        # Made when the first cluster starts.
        if self.path.parent.exists():
            check_private(self.path.parent, paths.RUNTIME_VARIABLE)

    def is_orphan(self) -> bool:
        """Return whether it runs though the kernel that started it is gone: its lease then has another parent."""
        lease = self.lease()
        try:
            return lease is not None and lease.ppid() != self.settings().get("kernel_pid")
        except psutil.NoSuchProcess:
            return False

    def write_ending(self, ending: Fault) -> None:
        """Record how the cluster ended."""
        self._write("ended.json", asdict(ending))

    def ending(self) -> Fault | None:
        """Return how the cluster ended, or None."""
        record = self._read("ended.json")
        return ending_of(json.dumps(record)) if record else None

    def ending_of_world(self, world_id: str) -> Fault | None:
        """Return how one world of ranks ended, also where new ones run in its place by now; None where not recorded."""
        settings = self.settings()
        previous = settings.get("previous")
        if settings.get("world_id") == world_id:
            return self.ending()
        if isinstance(previous, dict) and previous.get("world_id") == world_id and previous.get("ending"):
            return ending_of(json.dumps(previous["ending"]))
        return None

    def _write(self, name: str, content: dict[str, Any]) -> None:
        files.replace(self.path / name, json.dumps(content, indent=1))

    def _read(self, name: str) -> dict[str, Any] | None:
        """Return what a file of the folder holds; None where it is missing, or we did not write it."""
        if not is_private(self.path):
            return None
        try:
            return untrusted_files.read_object(self.path / name, only_own=True)
        except (OSError, ValueError):
            # The disk was full, or a user changed the file: a cluster that cannot be read must not hide the others.
            return None


def running() -> Iterator[ClusterFolder]:
    """Yield the folder of each cluster of this user's that runs on this host, by name; skip other folders."""
    for name in registry.names(registry.here()):
        folder = ClusterFolder(name)
        if folder.lease() is not None and folder.is_usable():
            yield folder


def kept() -> Iterator[ClusterFolder]:
    """Yield the folder of each cluster that runs with `--keep` though the kernel that started it is gone, by name."""
    for folder in running():
        try:
            is_kept = folder.is_orphan() and folder.spec().keep
        except ValueError:
            # Its lease has ended meanwhile, and the folder with it.
            continue
        if is_kept:
            yield folder


def not_found(folder: ClusterFolder) -> NoCluster:
    """Return the error that says why a cluster cannot be attached to, and what else runs, here and on other hosts."""
    name, lease = folder.name, folder.lease()
    others = list(registry.elsewhere())
    known = ", ".join(found.name for found in running()) or "none"
    known += f"; on other hosts: {', '.join(f'{other} on {host}' for other, host in others)}" if others else ""
    hosts = [host for other, host in others if other == name]
    rule, remedy = "A cluster must run to be attached to.", f"Start one with %ddl start --name {name}."
    if lease is not None:
        rule = f"A cluster's folder must say what it is, and {folder.path / 'cluster.json'} does not."
        remedy = f"End it with `kill {lease.pid}`, and start one with %ddl start --name {name}."
    elif len(hosts) == 1:
        rule = "A cluster whose ranks are all on its own host is used there: it listens on loopback alone."
        remedy = f"Use a kernel on {hosts[0]}, or start one here with %ddl start --name {name}."
    elif hosts:
        rule = "Of several clusters of one name that run on other hosts, a job's number says which."
        remedy = f"%ddl jobs has the numbers. Or use a kernel on {hosts[0]}."
    return NoCluster(f"{rule} Received: {name!r}; running: {known}. {remedy}")
