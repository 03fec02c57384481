"""Starts the process that holds a cluster, and ends it.

Runs on: kernel.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, NoReturn

import psutil

from jupyter_ddl.cluster.deaths import tail
from jupyter_ddl.host import run_module, untrusted_files

if TYPE_CHECKING:
    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.protocol.faults import Fault

STOP_TIMEOUT_S = 20.0
# What stands before the fault in a line that the kernel writes to it.
LOST = b"lost "
_LOG = "lease.log"
_LOG_BYTES = 1 << 16


def start(folder: ClusterFolder) -> subprocess.Popen[bytes]:
    """Start the lease of the cluster that has this folder."""
    # The write end of its stdin is ours alone (close-on-exec): it closes when this process ends, however it ends.
    with (folder.log_dir / _LOG).open("ab") as log:
        return subprocess.Popen(
            run_module.command("jupyter_ddl.cluster.lease", folder.name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # A terminal's Ctrl-C is for the kernel: it reaches the ranks as a release.
            start_new_session=True,
        )


def become(folder: ClusterFolder) -> NoReturn:
    """Replace this process by the lease of the cluster that has this folder.

    Its standard input and output stay: they are the kernel's at the other end.
    """
    with (folder.log_dir / _LOG).open("ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
    command = run_module.command("jupyter_ddl.cluster.lease", folder.name)
    os.execv(command[0], command)  # noqa: S606


def last_words(folder: ClusterFolder) -> str:
    """Return how a lease ended that recorded no ending: what it printed last, under a line that says so."""
    try:
        with untrusted_files.open_file(folder.log_dir / _LOG) as log:
            log.seek(max(0, log.seek(0, 2) - _LOG_BYTES))
            printed = tail(log.read().decode(errors="replace"))
    except OSError:
        # Its folder was removed.
        printed = ""
    return "its lease ended before it could say why" + (f"; it printed last:\n{printed}" if printed else "")


def tell_to_stop(lease: subprocess.Popen[bytes]) -> None:
    """Make a lease that this kernel started end its cluster, and wait until it has."""
    assert lease.stdin is not None
    if not lease.stdin.closed:
        try:
            with lease.stdin as pipe:
                pipe.write(b"stop\n")
        except (BrokenPipeError, ValueError):
            # It has ended already, and its watch may have closed the pipe meanwhile; wait() below collects it.
            pass
    try:
        lease.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        lease.kill()
        lease.wait()


def tell_lost(lease: subprocess.Popen[bytes], fault: Fault) -> bool:
    """Make a lease that this kernel started end its cluster as one that was lost; return whether that reached it."""
    assert lease.stdin is not None
    try:
        lease.stdin.write(LOST + json.dumps(asdict(fault)).encode() + b"\n")
        lease.stdin.flush()
    except (BrokenPipeError, ValueError):
        return False
    return True


def close_pipes(lease: subprocess.Popen[bytes]) -> None:
    """Close our ends of the pipes of a lease that has ended. To be called by the thread that reads from it.

    No other thread may: while that one polls the pipe, another file could get the descriptor.
    """
    for pipe in (lease.stdin, lease.stdout):
        if pipe is not None:
            with suppress(OSError):
                # What a stop had still to write has no reader now.
                pipe.close()


def terminate(lease: psutil.Process) -> None:
    """Make a lease that another kernel started end its cluster, and wait until it has."""
    try:
        lease.terminate()
        _, alive = psutil.wait_procs([lease], timeout=STOP_TIMEOUT_S)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=STOP_TIMEOUT_S)
    except psutil.NoSuchProcess:
        # It has ended already.
        return
