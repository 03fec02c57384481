"""Ties a process's life to its parent's, so that a killed parent leaves no orphan (Linux).

Runs on: controller, mpiexec, every rank, and the process that holds them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import stat
import sys
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import psutil

# Source: linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

# How long a process may take over SIGTERM before it gets SIGKILL.
_GRACE_S = 4.0

STDIN = "--stdin="

# Source: linux/falloc.h
_FALLOC_FL_KEEP_SIZE = 1
_LAST_WORDS_BYTES = 64 * 1024


def end_with_parent(signum: signal.Signals = signal.SIGKILL) -> None:
    """Ask Linux for `signum` when the parent dies. The request outlives an exec of an ordinary program."""
    parent_death_signal(signum)()


def parent_death_signal(signum: signal.Signals) -> Callable[[], None]:
    """Return what asks Linux for `signum` when the parent dies: safe to call in a child of a process with threads."""
    return partial(_prctl, _libc(), _PR_SET_PDEATHSIG, signum)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that `end_descendants` finds it."""
    _prctl(_libc(), _PR_SET_CHILD_SUBREAPER, 1)


def reserve_last_words(descriptor: int) -> None:
    """Reserve room on the disk for what a process may print last to a file, whose length does not change.

    mpiexec names the rank that died when it ends: on a disk that has become full it could not. Nothing
    happens where the file system cannot reserve room, or the descriptor is not a file's.
    """
    if sys.platform.startswith("linux") and stat.S_ISREG(os.fstat(descriptor).st_mode):
        allocate = ctypes.CDLL(None).fallocate
        allocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        allocate(descriptor, _FALLOC_FL_KEEP_SIZE, os.lseek(descriptor, 0, os.SEEK_END), _LAST_WORDS_BYTES)


def end_descendants() -> None:
    """End every process that this one started, or that those started: SIGTERM first, SIGKILL for those that stay.

    Requires `adopt_orphans`: only then are those found whose own parent has ended.
    """
    import psutil

    me = psutil.Process()
    # mpiexec and the controller end their own descendants; what is left then has no other parent to end it.
    _end(me.children())
    _end(me.children(recursive=True))


def _end(processes: list[psutil.Process]) -> None:
    import psutil

    for process in processes:
        _signal(process, signal.SIGTERM)
        # A stopped process handles SIGTERM only when SIGCONT resumes it.
        _signal(process, signal.SIGCONT)
    _, alive = psutil.wait_procs(processes, timeout=_GRACE_S)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=_GRACE_S)


def _signal(process: psutil.Process, signum: signal.Signals) -> None:
    import psutil

    try:
        process.send_signal(signum)
    except psutil.NoSuchProcess:
        # It has ended since the listing. psutil has checked that the PID is not another process's by now.
        return


def _libc() -> ctypes.CDLL | None:
    """Return the C library; None where it has no `prctl`."""
    return ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def _prctl(libc: ctypes.CDLL | None, option: int, value: int) -> None:
    if libc is None:
        return
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}) failed: {os.strerror(error)}")


if __name__ == "__main__":
    # `python -m jupyter_ddl.host.process_tree [--stdin=FILE] PROGRAM ARGS...`: it ends with its parent. SIGTERM lets
    # mpiexec end its ranks before itself.
    end_with_parent(signal.SIGTERM)
    reserve_last_words(sys.stdout.fileno())
    if sys.argv[1].startswith(STDIN):
        os.dup2(os.open(sys.argv.pop(1).removeprefix(STDIN), os.O_RDONLY), sys.stdin.fileno())
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  our own mpiexec command, as a list
