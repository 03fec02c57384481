"""Two hosts against one, from nothing to the first allreduce on four ranks; attaching to ranks on other hosts.

That is compared with ipyparallel's own client, which connects to the same controller.

The hosts are those of tests/systems: namespaces of this machine, reached over SSH. The network costs nothing, and the
cores are the same on both sides: what is compared is what it costs us that hosts are several. It takes root.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.harness import Row, interleave, report

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

    starts = interleave(lambda: start(hosts=HOSTS, ssh=ssh), lambda: start(n=4), PAIRS)
    attaches = interleave(attach, attach_ipyparallel, ATTACHES)
    report(
        "hosts",
        [Row("start of 4 ranks, 2 hosts / 1 host", *starts, "s")],
        aim=1.5,
        better="lower",
        also=[Row("attach to 4 ranks on 2 other hosts, ours / ipyparallel.Client", *attaches, "s")],
    )


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
