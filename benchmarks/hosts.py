"""Two hosts against one, from nothing to the first allreduce on four ranks; a cell of `pass`; attaching.

A cell on four ranks of two other hosts is compared with `%%px` on ipyparallel's own MPI engines on the same hosts. Our
ranks have used Horovod, as in a training session. Attaching to ranks on other hosts is compared with ipyparallel's
own client, which connects to the same controller.

The hosts are those of tests/systems: namespaces of this machine, reached over SSH. The network costs nothing, and the
cores are the same on both sides: what is compared is what it costs us that hosts are several. It takes root.
"""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from benchmarks.dispatch import USE_HOROVOD, compare
from benchmarks.harness import Row, interleave, report

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
HOSTS = "nodea:2,nodeb:2"
FIRST_ALLREDUCE = """
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
assert float(hvd.allreduce(tf.ones(1), op=hvd.Sum)[0]) == hvd.size() == 4
"""
PAIRS = 5
ATTACHES = 10
CELL_PAIRS = 7
LOGIN = "10.77.0.10"
HELD = "held"


def main() -> None:
    """Bring the hosts up, and run the benchmark on one that is neither."""
    if "--inside" in sys.argv:
        inside(sys.argv[-1])
        return
    if "--hold" in sys.argv:
        hold(sys.argv[-1])
        return
    sys.path.insert(0, str(ROOT / "tests"))
    hosts = import_module("systems.rig")
    with hosts.rig() as made:
        variables = {**hosts.environment(made), "PYTHONPATH": str(ROOT)}
        program = (sys.executable, "-m", "benchmarks.hosts")
        holder = subprocess.Popen(
            [*made.enter("nodea"), *program, "--hold", made.ssh],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
            subprocess.run([*made.enter("login"), *program, "--inside", made.ssh], env=variables, check=True)
            # The end of its input ends it.
            holder.communicate()


def hold(ssh: str) -> None:
    """Hold ranks for others to attach to, as a kernel on a node, until standard input ends."""
    import jupyter_ddl

    with jupyter_ddl.start(name=HELD, hosts=HOSTS, ssh=ssh):
        print("ready", flush=True)
        sys.stdin.read()


def inside(ssh: str) -> None:
    """Run the benchmark, as a kernel on the login node."""
    import jupyter_ddl

    def start(**where: Any) -> float:
        began_s = time.perf_counter()
        with jupyter_ddl.start(name=f"bench-{os.getpid()}", **where) as session:
            session.run(FIRST_ALLREDUCE)
            return time.perf_counter() - began_s

    cells = pass_on_hosts(ssh)
    attaches = interleave(attach, attach_ipyparallel, ATTACHES)
    starts = interleave(lambda: start(hosts=HOSTS, ssh=ssh), lambda: start(n=4), PAIRS)
    print(f"  load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    report(
        "hosts",
        [
            replace(row, aim=aim)
            for row, aim in (
                (Row("start of 4 ranks, 2 hosts / 1 host", *starts, "s"), 1.5),
                (cells[0], 1.0),
                (Row("attach to 4 ranks on 2 other hosts, ours / 1 s", attaches[0], (1.0,) * ATTACHES, "s"), 1.0),
            )
        ],
        aim=1.0,
        better="lower",
        also=[cells[1], Row("attach to 4 ranks on 2 other hosts, ours / ipyparallel.Client", *attaches, "s")],
    )


def pass_on_hosts(ssh: str) -> list[Row]:
    """Compare a cell of `pass` on ranks of ours with one on plain engines, on the same hosts: p50 and p95."""
    shell: Any = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_ddl")
    shell.run_line_magic("ddl", f"start -H {HOSTS} --ssh '{ssh}' --name cells-{os.getpid()}")
    try:
        shell.run_cell_magic("distributed", "", USE_HOROVOD)
        with plain_engines(ssh):
            return compare(shell, 4, "pass", CELL_PAIRS)
    finally:
        shell.run_line_magic("ddl", "stop")


@contextmanager
def plain_engines(ssh: str) -> Iterator[None]:
    """Hold ipyparallel's own MPI engines on the hosts, as the target of %%px."""
    import ipyparallel

    from jupyter_ddl.host.mpi import find_mpi
    from jupyter_ddl.launch.mpi_job import Network, launch_command, launch_environment
    from jupyter_ddl.launch.place_options import place_of

    place, found = place_of(HOSTS, ssh=ssh), find_mpi()
    own = launch_environment(found, 4, place, Network(LOGIN, f"{LOGIN}/24"))
    mpiexec, _, _, *arguments = launch_command(found, 4, place, own)
    # How to find the controller goes in variables, which Open MPI carries to no other host by itself: without them
    # engines look for another cluster's, below the home of whoever logs in there, and wait for ever.
    carried = [part for name in ("IPP_CLUSTER_ID", "IPP_PROFILE_DIR") for part in ("-x", name)]
    config = Config()
    config.MPIEngineSetLauncher.mpi_cmd = [mpiexec]
    config.MPIEngineSetLauncher.mpi_args = [*arguments, *carried]
    config.MPIEngineSetLauncher.environment = own
    cluster = ipyparallel.Cluster(
        n=4, engines="mpi", controller_ip=LOGIN, controller_location=LOGIN, log_level=logging.ERROR, config=config
    )
    client = cluster.start_and_connect_sync()
    assert sorted(client[:].apply_sync(socket.gethostname)) == ["nodea", "nodea", "nodeb", "nodeb"]
    view = client[:]
    view.block = True
    view.activate()
    try:
        yield
    finally:
        client.close()
        cluster.stop_cluster_sync()


def attach() -> float:
    """Return how long it takes to attach to the ranks that are held."""
    import jupyter_ddl

    began_s = time.perf_counter()
    session = jupyter_ddl.attach(HELD)
    took_s = time.perf_counter() - began_s
    assert len(session.ranks) == 4
    session.detach()
    return took_s


def attach_ipyparallel() -> float:
    """Return how long ipyparallel's client takes to connect to the same controller and to know its engines."""
    from ipyparallel import Client

    from jupyter_ddl.cluster import finding

    connection_file = finding.named(HELD).connection_file
    began_s = time.perf_counter()
    with Client(str(connection_file)) as client:
        client.wait_for_engines(4, timeout=60, interactive=False)
        return time.perf_counter() - began_s


if __name__ == "__main__":
    main()
