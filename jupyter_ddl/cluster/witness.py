"""Gives a world folders for temporary files on each of its hosts, and a witness there that removes them at its end.

    run_module.py jupyter_ddl.cluster.witness PROGRAM ARGS...

This stands before each rank's command. All ranks of a host hold one lock; the first to start there also starts the
witness, a process in a session of its own. When the lock is free the ranks are gone, whatever ended them: the witness
then ends MPI's daemon, if that waits for an mpiexec that does not answer, removes the folders and ends. Meanwhile it
keeps the ranks within the memory that their site allows (`memory_limits`). What a world left whose witness was killed
too, the next world's removes. It listens on nothing: states of ranks are asked over SSH (`launch.remote_processes`),
and how a rank ended is recorded by its own parent (`exit_records`, or a script's relay).

Runs on: every host of a world on several.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from jupyter_ddl.cluster import image_drivers, scratch
from jupyter_ddl.host import files
from jupyter_ddl.host.process_tree import end_with_parent
from jupyter_ddl.paths import WORLD_VARIABLE

if TYPE_CHECKING:
    from typing import BinaryIO

_DAEMON = "prted"
# Open MPI 5 has its daemon's folder in this variable, named after the daemon's PID.
_DAEMON_FOLDER = "PMIX_SERVER_TMPDIR"
_MOST_TRIES = 10
# A daemon that can reach mpiexec ends within a second of its ranks.
_DAEMON_ENDS_S = 10.0
_KILL_S = 3.0
# How often a witness looks whether its ranks are gone; waiting for the lock alone would never end where a program of
# Apptainer's is left with it.
_LOOK_S = 1.0


@dataclass(frozen=True)
class Daemon:
    """The process that started the ranks of this host.

    Attributes:
        pid: of the process.
        descriptor: of the process, which no other can get; None where Linux has none.
        is_mpi: it is Open MPI's daemon, which its own mpiexec started.
        folder: its temporary files.
    """

    pid: int
    descriptor: int | None
    is_mpi: bool
    folder: Path | None

    @classmethod
    def parent(cls) -> Daemon:
        """Return the parent of this process."""
        pid = os.getppid()
        try:
            descriptor: int | None = os.pidfd_open(pid)
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except (AttributeError, OSError):
            descriptor, name = None, ""
        folder = Path(os.environ.get(_DAEMON_FOLDER, "/"))
        return cls(pid, descriptor, name == _DAEMON, folder if _is_daemons(folder, pid) else None)

    @classmethod
    def abandoned(cls, record: Path) -> Daemon | None:
        """Return what a witness recorded of a daemon that has ended since; None where it has not, or none is."""
        try:
            number, folder = record.read_text().split(maxsplit=1)
            pid, path = int(number), Path(folder)
        except (OSError, ValueError):
            return None
        has_ended = not Path(f"/proc/{pid}").exists()
        return cls(pid, None, True, path) if has_ended and _is_daemons(path, pid) else None

    def record(self, record: Path) -> None:
        """Record it for the next world's witness, should this one be killed."""
        with suppress(OSError):
            record.write_text("" if self.folder is None else f"{self.pid} {self.folder}")

    def end(self) -> None:
        """Wait for its end; where it does not come, end it."""
        if self.descriptor is None:
            return
        for wait_s, signum in ((_DAEMON_ENDS_S, signal.SIGTERM), (_KILL_S, signal.SIGKILL), (_KILL_S, None)):
            if select.select([self.descriptor], [], [], wait_s)[0] or not self.is_mpi or signum is None:
                return
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.descriptor, signum)

    def clear(self) -> None:
        """Remove what it left behind."""
        if self.folder is not None and not self.folder.is_symlink():
            shutil.rmtree(self.folder, ignore_errors=True)


def prepare(world_id: str) -> dict[str, str]:
    """Make the world's folders on this host, with a witness; return the variables that make its ranks use them."""
    for _ in range(_MOST_TRIES):
        variables = scratch.make_named(os.environ, world_id)
        folder = variables.get("TMPDIR")
        if folder is None:
            # The place is taken: the ranks use the default.
            return {}
        with suppress(OSError), files.open_to_lock(Path(folder) / scratch.RANKS_LOCK) as ranks:
            files.lock(ranks, shared=True)
            # A witness that was at its end may have removed it meanwhile.
            if os.fstat(ranks.fileno()).st_nlink:
                _start_witness(Path(folder), ranks, variables)
                # The program that this becomes holds the lock by a descriptor of its own.
                os.set_inheritable(os.dup(ranks.fileno()), True)
                return variables
    return {}


def _start_witness(folder: Path, ranks: BinaryIO, variables: dict[str, str]) -> None:
    """Start a witness where this host has none."""
    with files.open_to_lock(folder / scratch.WITNESS_LOCK) as lock:
        try:
            files.lock(lock, wait=False)
        except BlockingIOError:
            return
        daemon = Daemon.parent()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            # The witness has the lock now.
            if daemon.descriptor is not None:
                os.close(daemon.descriptor)
            return
        _become_witness(folder, ranks, lock.fileno(), daemon, variables)


def _become_witness(folder: Path, ranks: BinaryIO, lock: int, daemon: Daemon, variables: dict[str, str]) -> NoReturn:
    """Leave the rank's session in a child of this process, and be the witness there."""
    try:
        os.setsid()
        # Its parent must not be waited for by the rank's shell.
        if os.fork() == 0:
            ranks.close()
            _detach(keep={descriptor for descriptor in (lock, daemon.descriptor) if descriptor is not None})
            _witness(folder, daemon, variables)
    finally:
        os._exit(0)


def _detach(keep: set[int]) -> None:
    """Let go of what belongs to the rank: its streams, which mpiexec reads to their end, and its folder.

    Intel MPI's Hydra leaves a rank more descriptors of the same streams: while one is open, it takes no notice of the
    rank's death.

    Args:
        keep: descriptors of the witness's own.
    """
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    free = 3
    for kept in (*sorted(keep), os.sysconf("SC_OPEN_MAX")):
        os.closerange(free, kept)
        free = max(free, kept + 1)
    os.chdir("/")


def _witness(folder: Path, daemon: Daemon, variables: dict[str, str]) -> None:
    """Wait until no rank is left on this host, and remove what they left."""
    daemon.record(folder / scratch.WITNESS_LOCK)
    _clear_abandoned(folder)
    # Imported here: each rank's command begins with this module.
    from jupyter_ddl.cluster.memory_limits import LimitOfHost

    limit = LimitOfHost.of(os.environ)
    with files.open_to_lock(folder / scratch.RANKS_LOCK) as ranks:
        while not _is_free(ranks):
            image_drivers.end_left(folder / scratch.RANKS_LOCK)
            if limit is not None:
                limit.tick()
            select.select([], [], [], _LOOK_S)
        daemon.end()
        scratch.clear(variables)
        daemon.clear()


def _clear_abandoned(own: Path) -> None:
    """Remove what other worlds left on this host whose ranks and witnesses are gone."""
    for found in own.parent.glob(f"{scratch.PREFIX}*/{scratch.RANKS_LOCK}"):
        # It cannot be opened or locked: it is another user's, or some process of that world lives.
        with suppress(OSError), files.open_to_lock(found) as ranks:
            files.lock(ranks, wait=False)
            with files.open_to_lock(found.with_name(scratch.WITNESS_LOCK)) as witness:
                files.lock(witness, wait=False)
                if (daemon := Daemon.abandoned(found.with_name(scratch.WITNESS_LOCK))) is not None:
                    daemon.clear()
                scratch.clear(scratch.named(found.parent.name.removeprefix(scratch.PREFIX)))


def _is_daemons(folder: Path, pid: int) -> bool:
    """Return whether a folder has the name and the place of the temporary files of the daemon with a PID."""
    is_named = re.fullmatch(rf"prted?\.(?:.*\.)?{pid}(?:\..*)?", folder.name) is not None
    return is_named and folder.parent == Path(tempfile.gettempdir())


def _is_free(ranks: BinaryIO) -> bool:
    try:
        files.lock(ranks, wait=False)
    except BlockingIOError:
        return False
    return True


def main() -> None:
    """Prepare this host, and become the program that the command line names."""
    end_with_parent(signal.SIGTERM)
    world_id = os.environ.get(WORLD_VARIABLE)
    if world_id is not None:
        os.environ.update(prepare(world_id))
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  our own command, as a list


if __name__ == "__main__":
    main()
