"""Two hosts against one: from nothing to the first allreduce on four ranks.

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


def main() -> None:
    """Bring the hosts up, and run the benchmark on one that is neither."""
    if "--inside" in sys.argv:
        inside(sys.argv[-1])
        return
    sys.path.insert(0, str(ROOT / "tests"))
    hosts = import_module("systems.rig")
    with hosts.rig() as made:
        variables = {**hosts.environment(made), "PYTHONPATH": str(ROOT)}
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

    starts = interleave(lambda: start(hosts=HOSTS, ssh=ssh), lambda: start(n=4), PAIRS)
    report("hosts", [Row("start of 4 ranks, 2 hosts / 1 host", *starts, "s")], aim=1.5, better="lower")


if __name__ == "__main__":
    main()
