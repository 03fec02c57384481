"""Looks at this host and prints what it found, as one line of JSON, then answers pings: `survey` runs it on each host.

    run_module.py jupyter_ddl.launch.remote_survey MPIEXEC FOLDER BACK MARK...

A FOLDER is the one in which ranks work. BACK is where the host that asks listens, "" where it need not be reached. A
MARK is a file that only the host which asks can have written, so it shows whether both share that folder. The program
starts as a rank does, from the same path, so an environment that is missing or broken shows before ranks start.
"""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import tempfile
import time
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from jupyter_ddl.errors import ClusterError, HostUnfit, InvalidInput
from jupyter_ddl.host.mpi import find_mpi
from jupyter_ddl.host.preflight import check_for_mpi
from jupyter_ddl.host.topology import list_gpus
from jupyter_ddl.launch.call_back import unreached
from jupyter_ddl.launch.clock_pings import answer_pings
from jupyter_ddl.launch.image_mpi import versions_of

# Ranks of different versions of these do not understand each other, or compute differently.
PACKAGES = ("jupyter_ddl", "tensorflow", "keras", "horovod", "mpi4py", "ipyparallel", "numpy")


def look(mpiexec: str, folder: str, back: str, *marks: str) -> dict[str, object]:
    """Return what ranks need to know of this host.

    Args:
        mpiexec: that starts ranks; empty in an image, whose own MPI is looked for.
        folder: in which ranks work.
        back: the address and port at which the host that asks listens; empty where it does not.
        marks: files by which shared folders are known.
    """
    problem = ""
    try:
        check_for_mpi()
        # Where NVML is broken ranks would fail, one by one.
        list_gpus()
    except (HostUnfit, ClusterError) as error:
        problem = str(error)
    return {
        "hostname": socket.gethostname(),
        # The address by which this host was reached. Source: ssh(1), ENVIRONMENT
        "address": (os.environ.get("SSH_CONNECTION", "").split() or [""] * 3)[2],
        "at_s": time.time(),
        "versions": {"Python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
        "has_mpiexec": not mpiexec or os.access(mpiexec, os.X_OK),
        "mpi": None if mpiexec else _own_mpi(),
        "has_folder": os.access(folder, os.X_OK),
        # Another user there may not even look into our folders.
        "has_marks": [os.access(mark, os.W_OK) and os.access(Path(mark).parent, os.W_OK) for mark in marks],
        # Where ranks keep their files, if the others are not shared.
        "temporary": tempfile.gettempdir(),
        "cores": len(os.sched_getaffinity(0)),
        "unreached": unreached(back),
        "problem": problem,
    }


def _own_mpi() -> dict[str, object] | None:
    try:
        return asdict(versions_of(find_mpi()))
    except InvalidInput:
        return None


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


if __name__ == "__main__":
    print(json.dumps(look(*sys.argv[1:])), flush=True)
    answer_pings()
