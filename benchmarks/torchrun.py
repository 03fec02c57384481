"""PyTorch in a cell against torchrun: samples/s of the same program, and the time from a start to the first all-reduce.

python -m benchmarks.torchrun [-n 2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jupyter_ddl
from benchmarks.harness import Row, interleave, report

PAIRS = 5
PROGRAM = Path(__file__).with_name("torch_program.py")
FIRST = """
import torch, torch.distributed as dist
if not dist.is_initialized():
    dist.init_process_group()
value = torch.ones(1, device="cuda" if torch.cuda.is_available() else "cpu")
dist.all_reduce(value)
assert value.item() == dist.get_world_size()
if dist.get_rank() == 0:
    print("{}")
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2, help="ranks (default: 2)")
    parser.add_argument("--oversubscribe", action="store_true", help="let them share a GPU, through gloo")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"how often each side runs (default: {PAIRS})")
    arguments = parser.parse_args()
    n, shares = arguments.n, arguments.oversubscribe
    if shares:
        os.environ["BENCH_BACKEND"] = "gloo"
    options = {"n": n, "name": f"bench-{os.getpid()}", "oversubscribe": shares, "framework": "torch"}

    def started() -> float:
        began_s = time.monotonic()
        with jupyter_ddl.start(**options) as session:
            session.run(FIRST)
            return time.monotonic() - began_s

    with tempfile.NamedTemporaryFile("w", suffix=".py") as first:
        first.write(FIRST.replace("init_process_group()", 'init_process_group("gloo")') if shares else FIRST)
        first.flush()
        ours, theirs = interleave(started, lambda: _torchrun(n, first.name)[0], arguments.pairs)
    start = Row(f"n={n} start to first all-reduce", ours, theirs, "s", aim=1.0)
    with jupyter_ddl.start(**options) as session:

        def in_a_cell() -> float:
            result = session.run(PROGRAM.read_text())
            return float(json.loads(result.ranks[0].stdout.splitlines()[-1])["samples_per_s"])

        ours, theirs = interleave(in_a_cell, lambda: _torchrun(n, str(PROGRAM))[1]["samples_per_s"], arguments.pairs)
    speed = Row(f"n={n} samples/s", ours, theirs, "samples/s")
    report("torchrun start", [start], aim=1.0, better="lower")
    report("torchrun", [speed], aim=0.98, better="higher")


def _torchrun(n: int, program: str) -> tuple[float, dict[str, Any]]:
    """Run a program under torchrun, with as many threads as our ranks have; return its seconds, and its figures.

    torch 2.14.1 with gloo aborts at the end of Python now and then ("terminate called without an active exception"),
    here in 3 of 14 runs, with `destroy_process_group` too: what the program printed before that counts.

    Raises:
        subprocess.CalledProcessError: it printed no figures; what it said was shown.
    """
    threads = max(1, len(os.sched_getaffinity(0)) // n)
    began_s = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}", program],
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    seconds = time.monotonic() - began_s
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise subprocess.CalledProcessError(done.returncode, done.args)
    return seconds, json.loads(lines[-1])


if __name__ == "__main__":
    main()
