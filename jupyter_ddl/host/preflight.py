"""Checks what ranks need of a host besides cores and GPUs: loopback, and room on its disks and in shared memory.

The doctor makes these checks, and every start before it begins (2 ms): MPI and ipyparallel would fail late, or hang.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import socket
import struct
import tempfile
from contextlib import ExitStack
from pathlib import Path

from jupyter_ddl import paths
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host.free_threads import check_threads
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.protocol.number_texts import counted, memory_size, number

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  the place itself, not a file in it
# Open MPI's shared-memory segment of one rank. It is sparse, but a rank that finds no page for it gets SIGBUS.
# Source: Open MPI 5.0.11, the text of its refusal ("Space Requested: 16777216 B").
SEGMENT_BYTES = 16 * 2**20
# A cluster's folder holds 12 KiB and what MPI and the ranks print outside cells; MPI's session folder 30 KiB a rank.
ROOM_BYTES = 2**20
# ipyparallel's controller listens on 15 ports (measured with 9.2), and each connection takes one more.
_PORTS = 32
_ANSWER_S = 2.0
# What a process of ours opens: ipyparallel's controller had 94 files for 2 ranks and 118 for 6, a rank 71, and the
# terminal of a script three a rank (measured on 2026-11-28).
_FILES = 100
_OF_A_CLUSTERS_RANK, _OF_A_SCRIPTS_RANK = 6, 3
_USUAL_FILES = 4096


def check_surroundings(ranks: int = 1) -> None:
    """Check that a cluster can start here.

    Runs on: kernel.

    Args:
        ranks: of the cluster, where this host has its controller.

    Raises:
        HostUnfit: it cannot; the error says why, and what to do.
        FolderNotWritable: the folder of the clusters cannot be made or written.
        FolderNotPrivate: another user can write to it.
    """
    check_open_files(ranks, _OF_A_CLUSTERS_RANK)
    check_threads(ranks)
    check_for_mpi()
    clusters = private_folder(paths.clusters_dir(), variable=paths.RUNTIME_VARIABLE)
    check_room(clusters, "The folder of the clusters", paths.RUNTIME_VARIABLE)


def check_working_folder() -> None:
    """Check that this process's working folder is there: ranks work in the same one.

    Raises:
        HostUnfit: it was removed, or cannot be entered any more.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise HostUnfit(
            "Ranks need the working folder that their kernel has.",
            f"none ({error.strerror}: it was removed, or moved)",
            "Go to one that is there: `%cd ~`, or os.chdir(...).",
        ) from error


def check_for_script(ranks: int) -> None:
    """Check that a script's ranks can start here, and that this process can read what they print.

    Runs on: the terminal's process.

    Raises:
        HostUnfit: they cannot; the error says why, and what to do.
    """
    check_open_files(ranks, _OF_A_SCRIPTS_RANK)
    check_for_mpi()


def check_for_mpi() -> None:
    """Check that MPI can start ranks here.

    Runs on: kernel, or the terminal's process.

    Raises:
        HostUnfit: it cannot; the error says why, and what to do.
    """
    check_working_folder()
    check_loopback()
    check_room(temporary_dir(), "The folder of temporary files, which MPI uses,", "TMPDIR")


def check_open_files(ranks: int, of_a_rank: int) -> None:
    """Check that a process may open as many files as what serves that many ranks does: sockets and pipes are files.

    Args:
        ranks: how many.
        of_a_rank: files that it opens for each.

    Raises:
        HostUnfit: it may not.
    """
    needed = _FILES + of_a_rank * ranks
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft not in (resource.RLIM_INFINITY, -1) and soft < needed:
        received = f"a limit of {soft:,} (`ulimit -n`), and {counted(ranks, 'rank')}"
        raise _few_files(received, needed)


def check_loopback() -> None:
    """Check that this host's processes can reach each other on 127.0.0.1, at ports that the system chooses.

    Raises:
        HostUnfit: they cannot.
    """
    with ExitStack() as stack:
        where = ""
        try:
            for _ in range(_PORTS):
                listener, caller = (stack.enter_context(socket.socket()) for _ in range(2))
                where = ""
                listener.bind(("127.0.0.1", 0))
                listener.listen(1)
                where = f" at port {listener.getsockname()[1]}"
                caller.settimeout(_ANSWER_S)
                # Closed at once: 32 connections that linger for a minute would use up a narrow range of ports.
                caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                caller.connect(listener.getsockname())
        except TimeoutError as error:
            raise _no_loopback(f"no answer within {_ANSWER_S:g} s{where}") from error
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise _few_files(str(error.strerror), _FILES) from error
            raise _no_loopback(f"{error.strerror}{where}") from error


def check_room(folder: Path, what: str, variable: str) -> None:
    """Check that a folder has room for what a cluster writes there, by writing as much: only that shows a quota.

    Args:
        folder: the folder; of one that does not exist, its nearest parent is checked.
        what: the folder as the error's subject: "The folder of the runs".
        variable: the environment variable that puts it elsewhere.

    Raises:
        HostUnfit: it has no room.
    """
    try:
        with tempfile.TemporaryFile(dir=_present(folder), buffering=0) as probe:
            left = memoryview(bytes(ROOM_BYTES))
            while left:
                left = left[probe.write(left) or 0 :]
    except OSError as error:
        raise HostUnfit(
            f"{what} must take {ROOM_BYTES // 2**20} MiB.",
            f"{folder} ({error.strerror}; {shown_bytes(free_bytes(folder))} free)",
            f"Make room there, or set {variable} to a folder elsewhere.",
        ) from error


def free_bytes(folder: Path) -> int:
    """Return the room on a folder's disk."""
    return shutil.disk_usage(_present(folder)).free


def temporary_dir() -> Path:
    """Return the folder in which MPI makes its session's folder, found as MPI finds it."""
    return Path(next((os.environ[name] for name in ("TMPDIR", "TEMP", "TMP") if os.environ.get(name)), "/tmp"))  # noqa: S108


def shared_memory_free_bytes() -> int:
    """Return the room in shared memory; 0 where there is none, or where we may not write to it."""
    if not os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        return 0
    return shutil.disk_usage(SHARED_MEMORY).free


def has_shared_memory(ranks: int) -> bool:
    """Return whether there is shared memory for that many ranks."""
    return shared_memory_free_bytes() >= ranks * SEGMENT_BYTES


def shown_bytes(count: int) -> str:
    """Render a number of bytes: "63.5 MiB"."""
    return memory_size(count) if count >= 2**30 else f"{number(count / 2**20)} MiB"


def _present(folder: Path) -> Path:
    """Return a folder, or its nearest parent that exists."""
    return next(parent for parent in (folder, *folder.parents) if parent.is_dir())


def _no_loopback(received: str) -> HostUnfit:
    return HostUnfit(
        "Kernel and ranks must reach each other on 127.0.0.1.",
        received,
        f"Bring loopback up (`ip link set lo up`), let the firewall pass what stays on it, and leave at least {_PORTS} "
        "ports free in net.ipv4.ip_local_port_range.",
    )


def _few_files(received: str, needed: int) -> HostUnfit:
    return HostUnfit(
        f"What serves the ranks must be able to open {needed:,} files.",
        received,
        f"Raise the limit where Jupyter, or the script, is started: `ulimit -n {max(needed, _USUAL_FILES)}`; or start "
        "fewer ranks.",
    )
