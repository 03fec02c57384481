"""Two hosts against one: the start of four ranks, and a cell of `pass` against `%%px` on the same hosts.

The hosts are those of tests/systems: namespaces of this machine, reached over SSH. The network costs nothing, and the
cores are the same on both sides: what is compared is what it costs us that hosts are several. It takes root.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.dispatch import batch
from benchmarks.harness import PAIRS, Row, interleave, report
from jupyter_ddl.host import mpi

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
START_PAIRS = 5


def main() -> None:
    """Bring the hosts up, and run the benchmark on one that is neither."""
    if "--inside" in sys.argv:
        inside(sys.argv[-1])
        return
    sys.path.insert(0, str(ROOT / "tests"))
    from systems.rig import environment, rig

    with rig() as made:
        variables = {**environment(made), "PYTHONPATH": str(ROOT)}
        command = [*made.enter("login"), sys.executable, "-m", "benchmarks.hosts", "--inside", made.ssh]
        subprocess.run(command, env=variables, check=True)


def inside(ssh: str) -> None:
    """Run the benchmark, as a kernel on the login node."""
    import jupyter_ddl

    def start(**where: Any) -> float:
        began_s = time.perf_counter()
        with jupyter_ddl.start(name=f"bench-{os.getpid()}", **where) as session:
            session.run(FIRST_ALLREDUCE)
            return time.perf_counter() - began_s

    starts = interleave(lambda: start(hosts=HOSTS, ssh=ssh), lambda: start(n=4), START_PAIRS)
    rows = [Row("start of 4 ranks, 2 hosts / 1 host", *starts, "s", aim=1.5), *cells(ssh)]
    report("hosts", rows, aim=1.0, better="lower")


def cells(ssh: str) -> list[Row]:
    """Return the row of a cell of `pass`, against `%%px`."""
    from IPython.core.interactiveshell import InteractiveShell

    shell: Any = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_ddl")
    shell.run_line_magic("ddl", f"start -H {HOSTS} --ssh '{ssh}' --name bench-{os.getpid()}")
    try:
        shell.run_cell_magic("distributed", "", FIRST_ALLREDUCE)
        with plain_engines(ssh):
            for magic in ("distributed", "px"):
                batch(shell, magic, "pass")  # the first cells fill caches on both sides
            medians = interleave(lambda: p50(shell, "distributed"), lambda: p50(shell, "px"), PAIRS)
    finally:
        shell.run_line_magic("ddl", "stop")
    return [Row("pass on 2 hosts p50, against %%px", *medians, "ms", aim=1.0)]


def p50(shell: Any, magic: str) -> float:
    """Return the median of a batch of cells, in milliseconds."""
    return sorted(times := batch(shell, magic, "pass"))[len(times) // 2]


@contextmanager
def plain_engines(ssh: str) -> Iterator[None]:
    """Hold ipyparallel's own MPI engines on the two hosts, as the target of %%px."""
    import ipyparallel
    from traitlets.config import Config

    found = mpi.find_mpi()
    os.environ.update(mpi.launch_environment(found, one_host=False) | {"PRTE_MCA_plm_ssh_agent": ssh})
    config = Config()
    config.MPILauncher.mpi_cmd = [str(found.mpiexec)]
    config.MPILauncher.mpi_args = ["-H", HOSTS, "--bind-to", "none", "-x", "PATH", "-x", "PYTHONPATH"]
    config.Cluster.controller_ip = "10.77.0.10"
    cluster = ipyparallel.Cluster(n=4, engines="mpi", log_level=logging.ERROR, config=config)
    client = cluster.start_and_connect_sync()
    view = client[:]
    view.block = True
    view.activate()
    try:
        yield
    finally:
        client.close()
        cluster.stop_cluster_sync()


if __name__ == "__main__":
    main()
