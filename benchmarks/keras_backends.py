"""Keras on PyTorch and on JAX in a cell against scripts: samples/s of the same network.

| rows | ours | theirs |
|---|---|---|
| n=1 | a program for one process, in a cell with `--auto`, recorded, sampled and shown | the same as a script |
| n=2 | the same program, on two ranks | two processes by hand: a loop with DDP on PyTorch, `DataParallel` on JAX |

Both sides have the same threads. Ranks keep to a core each, and a process that somebody starts by hand does not.

python -m benchmarks.keras_backends [--backends torch jax] [--pairs 5] [-n 1 2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from functools import partial

import jupyter_ddl
from benchmarks.harness import Nowhere, Row, interleave, report
from jupyter_ddl.host.held_ports import HeldPorts
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.views.dashboard import Dashboard

BACKENDS = ("torch", "jax")
PAIRS = 5
HANGS_S = 300


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS, help="of Keras (default: both)")
    parser.add_argument("-n", nargs="+", type=int, default=[1, 2], help="processes (default: 1 2)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"how often each side runs (default: {PAIRS})")
    arguments = parser.parse_args()
    rows = [compare(backend, n, arguments.pairs) for backend in arguments.backends for n in arguments.n]
    report("keras_backends", rows, aim=0.98, better="higher")


def compare(backend: str, n: int, pairs: int) -> Row:
    """Measure one backend on n ranks, and as n processes."""
    ours, theirs = interleave(partial(in_a_cell, backend, n), partial(as_scripts, backend, n), pairs)
    return Row(f"n={n} Keras on {backend}", ours, theirs, "samples/s")


def in_a_cell(backend: str, n: int) -> float:
    """Start ranks, train by `--auto --batch global` with everything on, and return samples/s."""
    name, setting = f"bench-{os.getpid()}", {"KERAS_BACKEND": backend}
    with jupyter_ddl.start(n=n, name=name, framework=backend, standby="never", env=setting) as session:
        code = f"from benchmarks import keras_program\nsamples_per_s = keras_program.fit({n})"
        session.run(code, auto=AutoOptions(batch="global"), view=lambda _: Dashboard(Nowhere()))
        samples_per_s: float = session.pull("samples_per_s", [0])[0]
    return samples_per_s


def as_scripts(backend: str, n: int) -> float:
    """Start n processes by hand; return what the first one prints."""
    threads = max(1, len(os.sched_getaffinity(0)) // n)
    command = [sys.executable, "-m", "benchmarks.keras_program", "fit" if n == 1 else backend]
    with ExitStack() as stack:
        ports = stack.enter_context(HeldPorts())
        shared = {
            **os.environ,
            "KERAS_BACKEND": backend,
            "OMP_NUM_THREADS": str(threads),
            "WORLD_SIZE": str(n),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(ports.add()),
        }
        processes = []
        for rank in range(n):
            variables = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
            process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
            processes.append(process)
            stack.callback(process.wait)
            stack.callback(process.kill)
        answers = [process.communicate(timeout=HANGS_S)[0] for process in processes]
    return float(json.loads(answers[0].splitlines()[-1])["samples_per_s"])


if __name__ == "__main__":
    main()
