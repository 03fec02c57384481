"""A host that is not as it should be: ranks train all the same, or `start` says at once what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from namespaces import run_apart
from ranks.kernels import without

from jupyter_ddl import paths

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

NETWORK = "ip link set lo up"
# Sums over the ranks: by MPI alone, with ranks that have no TensorFlow to import; and as a training does.
MPI_SUM = "from mpi4py import MPI\nMPI.COMM_WORLD.allreduce(1.0)"
HOROVOD_SUM = """
import horovod.tensorflow as hvd
import tensorflow as tf
hvd.init()
float(hvd.allreduce(tf.ones(1), op=hvd.Sum)[0])
"""
SUMS = pytest.mark.parametrize(
    "total",
    [MPI_SUM, pytest.param(HOROVOD_SUM, marks=pytest.mark.slow)],
    ids=["MPI", "Horovod"],
)
# Runs with the kernel's side in a process of its own: the environment is read when it starts.
TRAINS = """
import json, os, jupyter_ddl
with jupyter_ddl.start(n=2, name="odd", env=json.loads(os.environ["OF_RANKS"])) as session:
    result = session.run(os.environ["SUM"])
    print(json.dumps([result.ranks[rank].value for rank in (0, 1)]))
"""
REFUSED = """
import json, time, jupyter_ddl
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.errors import DdlError
began_s = time.monotonic()
try:
    jupyter_ddl.start(n=2, name="refused").stop()
except DdlError as error:
    told = f"{type(error).__name__}: {error}"
print(json.dumps([told, time.monotonic() - began_s, ClusterFolder("refused").path.exists()]))
"""


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    """Return variables for folders of this test's own."""
    names = {paths.RUNTIME_VARIABLE: "runtime", paths.RUNS_VARIABLE: "runs", "TMPDIR": "tmp", "HOME": "home"}
    for name in names.values():
        (tmp_path / name).mkdir()
    return {variable: str(tmp_path / name) for variable, name in names.items()}


def summing(total: str, folder: Path) -> dict[str, str]:
    """Return variables for a program whose ranks run a sum."""
    environment = without(folder, "tensorflow") if total == MPI_SUM else {}
    return {"SUM": total, "OF_RANKS": json.dumps(environment)}


@SUMS
def test_long_paths_with_spaces_that_are_not_ascii(tmp_path: Path, total: str) -> None:
    # Two folders above the 108 bytes of a unix socket's path, and a user whose name no C locale can spell.
    root = tmp_path / ("a-long-name-" * 15) / "with a space" / "пользователь-ü"
    assert len(os.fsencode(root)) > 250
    variables = {
        paths.RUNTIME_VARIABLE: f"{root}/runtime",
        paths.RUNS_VARIABLE: f"{root}/runs",
        "TMPDIR": f"{root}/tmp",
        "HOME": f"{root}/home",
        "USER": "пользователь",
        "LC_ALL": "C",
        **summing(total, tmp_path),
    }
    (root / "tmp").mkdir(parents=True)
    (root / "home").mkdir()
    child = subprocess.run(
        [sys.executable, "-c", TRAINS], env={**os.environ, **variables}, capture_output=True, text=True, timeout=120
    )
    assert child.stdout.splitlines()[-1:] == ['["2.0", "2.0"]'], child.stdout + child.stderr
    assert len(list((root / "runs").glob("*/rank-1.log"))) == 1


# The clusters' disk has room when the ranks start and none when the cell runs; the runs' disk is full from the start.
FILLS_UP = """
import json, os, pathlib, threading, jupyter_ddl
from jupyter_ddl.errors import DdlError
def fill(folder):
    with open(pathlib.Path(folder, "filler"), "ab", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)): pass
        except OSError: pass
fill(os.environ["JUPYTER_DDL_RUNS"])
session = jupyter_ddl.start(n=2, name="odd", env=json.loads(os.environ["OF_RANKS"]))
fill(os.environ["JUPYTER_DDL_RUNTIME"])
result = session.run(os.environ["SUM"])
segments = [name for name in os.listdir(os.environ["TMPDIR"]) if name.startswith("sm_segment")]
def kill():
    # Once more: a file that has gone since left room.
    fill(os.environ["JUPYTER_DDL_RUNTIME"])
    os.kill(session.ranks[1].pid, 9)
threading.Timer(1.0, kill).start()
told = []
for code in ("import time; time.sleep(60)", "rank"):
    try:
        session.run(code)
    except DdlError as error:
        told.append(str(error))
session.stop()
print(json.dumps([[result.ranks[rank].value for rank in (0, 1)], len(segments), *told]))
"""


@SUMS
def test_full_disks_little_shared_memory_loopback_only_and_a_host_without_a_name(
    folders: dict[str, str], tmp_path: Path, total: str
) -> None:
    setup = f"""{NETWORK}
        hostname no-such-host-anywhere
        mount -t tmpfs -o size=1m none /dev/shm
        mount -t tmpfs -o size=2m,mode=700 none "${paths.RUNTIME_VARIABLE}"
        mount -t tmpfs -o size=64k,mode=700 none "${paths.RUNS_VARIABLE}"
        mount -t tmpfs none "$HOME"; mount -o remount,ro "$HOME" """
    values, segments, lost, after = run_apart(setup, FILLS_UP, folders | summing(total, tmp_path))
    assert values == ["2.0", "2.0"]
    assert segments >= 2  # the ranks' shared memory is in files, since /dev/shm has no room for it
    # For what mpiexec says when it ends there is room kept.
    killed = "rank 1 on no-such-host-anywhere was ended by signal 9 (Killed)"
    assert lost.startswith(f"Ranks must live to the end of the cell. Received: {killed}")
    assert "The folder of the clusters must take 1 MiB." in after


@pytest.mark.parametrize(
    ("setup", "beginning", "ending"),
    [
        pytest.param(
            f'{NETWORK}; mount -t tmpfs -o size=64k none "${paths.RUNTIME_VARIABLE}"',
            "HostUnfit: The folder of the clusters must take 1 MiB. Received: {JUPYTER_DDL_RUNTIME}/clusters "
            "(No space left on device; 0.0586 MiB free).",  # the folder and the file of its claim are there
            "Make room there, or set JUPYTER_DDL_RUNTIME to a folder elsewhere.",
            id="clusters' disk full",
        ),
        pytest.param(
            f'{NETWORK}; mount -t tmpfs -o size=64k none "$TMPDIR"',
            "HostUnfit: The folder of temporary files, which MPI uses, must take 1 MiB. Received: {TMPDIR} (No space",
            "Make room there, or set TMPDIR to a folder elsewhere.",
            id="temporary disk full",
        ),
        pytest.param(
            f'{NETWORK}; mount -t tmpfs none "$HOME"; mount -o remount,ro "$HOME"; unset {paths.RUNTIME_VARIABLE}',
            "FolderNotWritable: jupyter_ddl must be able to write to its folder. "
            "Received: {HOME}/.local/share/jupyter/runtime/ddl/clusters (Read-only file system).",
            "Set JUPYTER_DDL_RUNTIME to a folder that you may write to.",
            id="read-only home",
        ),
        pytest.param(
            "true",
            "HostUnfit: Kernel and ranks must reach each other on 127.0.0.1. Received: Network is unreachable at port ",
            "ports free in net.ipv4.ip_local_port_range.",
            id="no loopback",
        ),
        pytest.param(
            f"{NETWORK}; ip rule add pref 100 lookup local; ip rule add pref 1 dport 1024-65534 prohibit; "
            "ip rule del pref 0",
            "HostUnfit: Kernel and ranks must reach each other on 127.0.0.1. Received: Permission denied at port ",
            "ports free in net.ipv4.ip_local_port_range.",
            id="ports closed",
        ),
        pytest.param(
            f"{NETWORK}; echo 40000 40007 > /proc/sys/net/ipv4/ip_local_port_range",
            "HostUnfit: Kernel and ranks must reach each other on 127.0.0.1. Received: Address already in use. Bring",
            "ports free in net.ipv4.ip_local_port_range.",
            id="few ports",
        ),
    ],
)
def test_a_start_that_cannot_be_is_refused_at_once(
    folders: dict[str, str], setup: str, beginning: str, ending: str
) -> None:
    told, seconds, folder_left = run_apart(setup, REFUSED, folders)
    assert told.startswith(beginning.format(**folders))
    assert told.endswith(ending)
    assert seconds < 20.0
    assert not folder_left


DOCTOR = """
import json
from jupyter_ddl.doctor import surroundings as checks
found = [checks.check_room(), checks.check_shared_memory(2), checks.check_loopback(), checks.check_host_name()]
print(json.dumps([[check.name, check.status, check.text, check.remedy] for check in found]))
"""


def test_the_doctor_names_the_same(folders: dict[str, str]) -> None:
    setup = f"""hostname no-such-host-anywhere
        mount -t tmpfs -o size=1m none /dev/shm
        mount -t tmpfs -o size=64k,mode=700 none "${paths.RUNS_VARIABLE}" """
    room, memory, loopback, name = run_apart(setup, DOCTOR, folders)
    assert room[:2] == ["Room", "note"]
    assert "The folder of the runs must take 1 MiB." in room[2]
    assert room[3].endswith("Cells train meanwhile, and leave no record.")
    assert memory[:3] == ["Shared memory", "note", "1 MiB free in /dev/shm"]
    assert "docker run --shm-size" in memory[3]
    assert loopback[:2] == ["Loopback", "problem"]
    assert "Network is unreachable" in loopback[2]
    assert name[:2] == ["Host name", "note"]
    assert name[2].startswith("no-such-host-anywhere does not resolve (")
