"""Horovod's exchange of 100 MB of gradients over two hosts with a slow link: by levels, and flat.

By levels, which is what ranks on several hosts do by default, those of a host sum among themselves first, and hosts
with each other once. Both sides are `jupyter ddl run -H`, as a user starts it; the flat one with the variable that
switches levels off. The hosts are those of tests/systems, and their link is shaped to 400 Mbit/s: an artificial
network. Four ranks are placed round-robin, where levels count, and by slot, where they must cost nothing.

It takes root.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.harness import Row, report, rounds
from benchmarks.hosts_exchange import HOSTS, PRIORITY, ROOT, on_slow_hosts

PLACED = {"round-robin": "node:oversubscribe", "by slot": "slot:oversubscribe"}
AIMS = {"round-robin": 0.6, "by slot": 1.1}
ROUNDS = 3
TIMEOUT_S = 300
EXCHANGE = """
import statistics, time
import horovod.tensorflow as hvd
import tensorflow as tf
hvd.init()
gradients = [tf.ones([625_000]) for _ in range(40)]
def exchange():
    began_s = time.perf_counter()
    hvd.grouped_allreduce(gradients, name="gradients")
    return float(hvd.allreduce(tf.constant(time.perf_counter() - began_s), op=hvd.Max, name="slowest"))
exchange()
took = statistics.median(exchange() for _ in range(3))
if hvd.rank() == 0:
    print(f"exchange took {took:.6f} s on {hvd.size()} ranks of {hvd.cross_size()} hosts")
"""


def main() -> None:
    """Run the benchmark on the hosts."""
    if "--inside" in sys.argv:
        report("levels", [row(sys.argv[-1], placed) for placed in PLACED], aim=1.0, better="lower")
        return
    on_slow_hosts("benchmarks.levels")


def row(ssh: str, placed: str) -> Row:
    """Compare the sides for one way to place the ranks."""
    sides = {"levels": {}, "flat": {PRIORITY: "0"}}
    figures = rounds(
        {side: partial(exchange, ssh, placed, changes) for side, changes in sides.items()}, ROUNDS, show="{:.4g}".format
    )
    print(f"  load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    name = f"100 MB through Horovod, {placed}, by levels / flat"
    return Row(name, tuple(figures["levels"]), tuple(figures["flat"]), "s", AIMS[placed])


def exchange(ssh: str, placed: str, changes: dict[str, str]) -> float:
    """Return how long the slowest of four ranks took, in seconds: the median of three exchanges."""
    own = {"PRTE_MCA_rmaps_default_mapping_policy": PLACED[placed], **changes}
    # On the disk that all hosts have: each host's /tmp is its own.
    shared = ROOT / "build"
    shared.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=shared) as folder:
        script = Path(folder) / "exchange.py"
        script.write_text(EXCHANGE)
        command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "4", "-H", HOSTS, "--ssh", ssh, str(script)]
        done = subprocess.run(
            command, env={**os.environ, **own}, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    found = re.search(r"exchange took ([\d.]+) s on 4 ranks of 2 hosts", done.stdout)
    if found is None:
        raise RuntimeError(done.stdout + done.stderr)
    return float(found[1])


if __name__ == "__main__":
    main()
