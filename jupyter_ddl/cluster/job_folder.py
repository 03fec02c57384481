"""Reads and writes the folder of a batch job that was submitted: what its program starts, and whether its kernel lives.

JOBS/TOKEN/             0700
order.json              what the job's program starts; written before the job is submitted
id                      the scheduler's name of it; written afterwards
kernel.lock             locked while the kernel that submitted it lives
kernel.beat             a number that this kernel raises, for file systems where no lock is seen between hosts
output.log              what the job printed

Runs on: kernel, a terminal, and the job's program.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import registry
from jupyter_ddl.errors import FolderNotWritable
from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.host.private_folders import is_private, private_folder
from jupyter_ddl.launch.profiles.limits import Allowed  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.codec import record_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ID_BYTES = 256
_LOG_BYTES = 1 << 15
_LOG_LINES = 12


@dataclass(frozen=True)
class JobOrder:
    """What a job's program starts.

    Attributes:
        name: the cluster's.
        n: ranks in all.
        scheduler: the kind of the scheduler.
        keep: the job outlives the kernel that submitted it.
        rebuild: lost ranks are replaced in the job.
        host: that kernel's; ranks are reached from there.
        runs: the folder of the runs.
        gpus: as `plan` takes it.
        threads: likewise.
        environment: variables of the ranks.
        container: the image in which they run; None for none.
        idle_stop: after how long without a run they, and the job, are ended, as "30m"; None for never.
        allowed: what the profile of the job allows; None without one.
    """

    name: str
    n: int
    scheduler: str
    keep: bool
    rebuild: bool
    host: str
    runs: str
    gpus: str | None = None
    threads: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    container: str | None = None
    idle_stop: str | None = None
    allowed: Allowed | None = None


class JobFolder:
    """The folder of one job."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, order: JobOrder) -> JobFolder:
        """Make the folder of a job that is about to be submitted.

        Raises:
            FolderNotWritable: it cannot be made.
        """
        jobs = private_folder(paths.jobs_dir(), variable=paths.RUNTIME_VARIABLE)
        made = cls(jobs / f"{order.name}-{secrets.token_hex(4)}")
        try:
            made.path.mkdir(mode=0o700)
            files.replace(made.path / "order.json", json.dumps(asdict(order), indent=1))
        except OSError as error:
            raise FolderNotWritable(made.path, paths.RUNTIME_VARIABLE, error.strerror or str(error)) from error
        return made

    @property
    def output(self) -> Path:
        """The file of what the job prints."""
        return self.path / "output.log"

    def order(self) -> JobOrder:
        """Return what the job's program starts.

        Raises:
            ValueError, OSError: the folder holds none.
        """
        if not is_private(self.path):
            raise ValueError(f"{self.path} must be this user's alone.")
        return record_of(JobOrder, untrusted_files.read_object(self.path / "order.json", only_own=True))

    def write_id(self, job: str) -> None:
        """Record the scheduler's name of the job."""
        files.replace(self.path / "id", job)

    def id(self) -> str | None:
        """Return the scheduler's name of the job; None before it is known."""
        try:
            with untrusted_files.open_file(self.path / "id", only_own=True) as file:
                return file.read(_ID_BYTES).decode() or None
        except (OSError, ValueError):
            return None

    def last_words(self) -> str:
        """Return the last lines that the job printed."""
        try:
            with untrusted_files.open_file(self.output) as log:
                log.seek(max(0, log.seek(0, 2) - _LOG_BYTES))
                return "\n".join(log.read().decode(errors="replace").splitlines()[-_LOG_LINES:])
        except OSError:
            return ""

    def hold(self) -> None:
        """Record that the kernel that submitted the job lives, for as long as the calling process does."""
        registry.hold_lock(self.path, "kernel.lock")

    def beat(self, number: int) -> None:
        """Write the next number of the calling kernel."""
        files.replace(self.path / "kernel.beat", str(number))

    def let_go(self) -> None:
        """Record that the kernel that submitted the job has no more use for it."""
        with suppress(OSError):
            (self.path / "kernel.beat").unlink()

    def kernel(self) -> tuple[bool, str | None]:
        """Return whether a kernel holds the lock, and its number; None for a number where it let go."""
        try:
            with untrusted_files.open_file(self.path / "kernel.beat", only_own=True) as file:
                beat: str | None = file.read(_ID_BYTES).decode()
        except (OSError, ValueError):
            beat = None
        return registry.is_locked(self.path, "kernel.lock"), beat

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)


def submitted() -> Iterator[JobFolder]:
    """Yield the folder of each job of this user's that was submitted; skip others."""
    jobs = paths.jobs_dir()
    for name in registry.names(jobs):
        folder = JobFolder(jobs / name)
        with suppress(OSError, ValueError):
            folder.order()
            yield folder


class KernelWatch:
    """Decides, on the job's host, whether the kernel that submitted it is gone.

    It lives while it holds its lock. Where no lock is seen, it lives while its number rises: by this host's clock, for
    two hosts' differ.

    Args:
        folder: the job's.
        now_s: by a clock that never decreases.
    """

    PATIENCE_S = 40.0

    def __init__(self, folder: JobFolder, now_s: float) -> None:
        self._folder = folder
        self._beat: str | None = ""
        self._seen_s = now_s

    def is_gone(self, now_s: float) -> bool:
        """Return whether the kernel is gone."""
        is_locked, beat = self._folder.kernel()
        if beat is None:
            return True
        if is_locked or beat != self._beat:
            self._beat, self._seen_s = beat, now_s
        return now_s - self._seen_s > self.PATIENCE_S


def own_host() -> str:
    """Return the name by which the hosts of a job know this one."""
    return os.uname().nodename
