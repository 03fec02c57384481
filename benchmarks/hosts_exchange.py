"""MPI's allreduce of 100 MB over two hosts with a slow link: by our settings, and by others of Open MPI's.

The hosts are those of tests/systems; both ends of their link are shaped to 400 Mbit/s, which is an artificial network.
Four ranks are placed round-robin, where the topology counts, and by slot, where it must cost nothing. The others are
the flat algorithms, and what Open MPI does by itself; by slot we are compared with the faster of both, of each round.
It takes root.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from importlib import import_module
from pathlib import Path

from benchmarks.harness import Row, report, rounds

ROOT = Path(__file__).resolve().parents[1]
HOSTS = "nodea:2,nodeb:2"
SHAPED = "tc qdisc add dev eth0 root tbf rate 400mbit burst 256kb latency 200ms"
PLACED = {"round-robin": "node", "by slot": "slot"}
AIMS = {"round-robin": 0.5, "by slot": 1.05}
ALLREDUCE = """
import time
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
sent, received = array("f", bytes(100_000_000)), array("f", bytes(100_000_000))
world.Allreduce(sent[:1000], received[:1000])
world.Barrier()
began_s = time.perf_counter()
world.Allreduce(sent, received)
took_s = world.allreduce(time.perf_counter() - began_s, MPI.MAX)
assert world.size == 4
if world.rank == 0:
    print(took_s)
"""
ROUNDS = 5
PRIORITY, SEGMENT = "OMPI_MCA_coll_han_priority", "OMPI_MCA_coll_han_allreduce_segsize"
TIMEOUT_S = 120


def main() -> None:
    """Run the benchmark on the hosts."""
    if "--inside" in sys.argv:
        inside(sys.argv[-1])
        return
    on_slow_hosts("benchmarks.hosts_exchange")


def on_slow_hosts(benchmark: str) -> None:
    """Bring the hosts up, shape their link, and run a benchmark on the login node, with `--inside` and the hosts' SSH.

    Args:
        benchmark: the module's name.
    """
    sys.path.insert(0, str(ROOT / "tests"))
    hosts = import_module("systems.rig")
    with hosts.rig() as made:
        for node in hosts.NODES:
            made.on(node, SHAPED)
        variables = {**hosts.environment(made), "PYTHONPATH": str(ROOT)}
        program = (sys.executable, "-m", benchmark, "--inside", made.ssh)
        subprocess.run([*made.enter("login"), *program], env=variables, check=True)


def inside(ssh: str) -> None:
    """Run the benchmark, as a process on the login node."""
    report("hosts-exchange", [row(ssh, placed) for placed in PLACED], aim=1.0, better="lower")


def row(ssh: str, placed: str) -> Row:
    """Compare the sides for one way to place the ranks."""
    own = {"ours": {}, "flat": {PRIORITY: "0"}, "default": {PRIORITY: "35", SEGMENT: "65536"}}
    figures = rounds(
        {side: partial(allreduce, ssh, placed, changes) for side, changes in own.items()}, ROUNDS, show="{:.4g}".format
    )
    print(f"  load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    best = tuple(map(min, figures["flat"], figures["default"]))
    theirs, against = (best, "the best") if placed == "by slot" else (tuple(figures["flat"]), "flat")
    return Row(f"100 MB, {placed}, ours / {against}", tuple(figures["ours"]), theirs, "s", AIMS[placed])


def allreduce(ssh: str, placed: str, changes: dict[str, str]) -> float:
    """Return how long the slowest of four ranks took, in seconds."""
    from jupyter_ddl.host.mpi import find_mpi
    from jupyter_ddl.launch.mpi_job import Network, launch_command, launch_environment
    from jupyter_ddl.launch.place_options import place_of

    place = place_of(HOSTS, ssh=ssh)
    found = find_mpi()
    own = {**launch_environment(found, 4, place, Network("10.77.0.10", "10.77.0.0/24")), **changes}
    command = [*launch_command(found, 4, place, own), "--map-by", PLACED[placed], sys.executable, "-c", ALLREDUCE]
    done = subprocess.run(
        command, env={**os.environ, **own}, stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT_S
    )
    return float(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
