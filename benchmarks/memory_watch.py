"""What it costs to watch the memory of ranks: the watch's own CPU time in each second, on one host.

python -m benchmarks.memory_watch [--seconds 20]

Ranks are Python processes that hold memory and have forked children, which share it: the watch reads no more of real
ones. Below the limit it reads what Linux has at hand of each process of the user; near it exact figures too, of which
each takes as long as the process has pages. The aims are 1 % of a core, and 6 % near the limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from benchmarks.harness import Row, report
from jupyter_ddl.host import process_identity
from jupyter_ddl.host.memory_watch import TICK_S, MemoryWatch

if TYPE_CHECKING:
    from collections.abc import Iterator

MIB = 2**20
BELOW_MS, NEAR_MS = 10.0, 60.0
# Above any of these ranks, and so little above that exact figures are read.
FAR, NEAR = 10.0, 1.1
# Ranks, what each holds in MiB, and its children.
WORLDS = ((2, 1000, 4), (64, 40, 2))
# Python itself, in each process.
PYTHON_MIB = 8
RANK = """
import os, sys, time
held = b"x" * ({mib} * 2**20)
for _ in range({children}):
    if os.fork() == 0:
        sys.stdin.close()
        time.sleep(3600)
print("up", flush=True)
sys.stdin.read()
os.killpg(0, 9)
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="of each world and limit (default: 20)")
    arguments = parser.parse_args()
    began_load, rows = os.getloadavg()[0], []
    for ranks, mib, children in WORLDS:
        with ExitStack() as stack:
            pids = [stack.enter_context(rank(mib, children)) for _ in range(ranks)]
            held_bytes = (mib + PYTHON_MIB * (1 + children)) * MIB
            for where, most_bytes, aim in (("below", FAR * held_bytes, BELOW_MS), ("near", NEAR * held_bytes, NEAR_MS)):
                figures = tuple(looks_ms(pids, int(most_bytes), arguments.seconds))
                mean_ms = sum(figures) / len(figures)
                rows.append(Row(f"{ranks} ranks, {where} the limit, mean", (mean_ms,), (aim,), "ms/s"))
    load = f"{began_load:.1f} to {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    report(f"memory_watch, load {load}", rows, aim=1.0, better="lower")


@contextmanager
def rank(mib: int, children: int) -> Iterator[int]:
    """Give the PID of a process that holds memory and has children, for the length of the block."""
    code = RANK.format(mib=mib, children=children)
    with subprocess.Popen(
        [sys.executable, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != b"up\n":
            raise SystemExit("A process that stands for a rank did not start.")
        yield process.pid
        process.stdin.close()


def looks_ms(pids: list[int], most_bytes: int, count: int) -> Iterator[float]:
    """Look once in each tick; yield the CPU time of each look, in milliseconds."""
    identities = [process_identity.of(pid) for pid in pids]
    ranks = {number: (one["pid"], one["start_ticks"]) for number, one in enumerate(identities) if one is not None}
    watch = MemoryWatch(most_bytes, lambda: ranks, "no process of ours")
    for _ in range(count):
        began_s = time.process_time()
        if watch.due() is not None:
            raise SystemExit("The limit was meant to be above what the processes hold.")
        yield 1000 * (time.process_time() - began_s)
        time.sleep(TICK_S)


if __name__ == "__main__":
    main()
