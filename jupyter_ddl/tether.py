"""Ties a process's life to its parent's, so that a killed parent leaves no orphan (Linux).

Runs on: controller, mpiexec and every rank.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

# Source: linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def end_with_parent(signum: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel for `signum` when the parent dies. The request outlives an exec of an ordinary program."""
    _prctl(_PR_SET_PDEATHSIG, signum)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that none is lost from sight."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"prctl({option}) failed: {os.strerror(error)}")


if __name__ == "__main__":
    # `python -m jupyter_ddl.tether PROGRAM ARGS...`: the program, ended with its parent. SIGTERM lets mpiexec end its
    # ranks before itself.
    end_with_parent(signal.SIGTERM)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  the lease's own mpiexec command, as a list
