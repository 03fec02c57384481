"""Starts the process that holds a cluster, and ends it.

Runs on: kernel.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from jupyter_ddl.cluster.folder import ClusterFolder

STOP_TIMEOUT_S = 20.0


def start(folder: ClusterFolder) -> subprocess.Popen[bytes]:
    """Start the lease of the cluster that has this folder."""
    # The write end of its stdin is ours alone (close-on-exec): it closes when this process ends, however it ends.
    with (folder.log_dir / "lease.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "jupyter_ddl.cluster.lease", folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            # A terminal's Ctrl-C is for the kernel: it reaches the ranks as a release.
            start_new_session=True,
        )


def tell_to_stop(lease: subprocess.Popen[bytes]) -> None:
    """Have a lease of this kernel's end its cluster, and wait until it has."""
    assert lease.stdin is not None
    if not lease.stdin.closed:
        try:
            with lease.stdin as pipe:
                pipe.write(b"stop\n")
        except BrokenPipeError:
            # It has ended by itself; wait() below collects it.
            pass
    try:
        lease.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        lease.kill()
        lease.wait()


def terminate(lease: psutil.Process) -> None:
    """Have a lease that another kernel started end its cluster, and wait until it has."""
    try:
        lease.terminate()
        _, alive = psutil.wait_procs([lease], timeout=STOP_TIMEOUT_S)
        for process in alive:
            process.kill()
        psutil.wait_procs(alive, timeout=STOP_TIMEOUT_S)
    except psutil.NoSuchProcess:
        # It ended by itself meanwhile.
        return
