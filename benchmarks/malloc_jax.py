"""What it gains that ranks of JAX keep the memory that they free: samples/s and memory, against glibc's own thresholds.

The convolutional network of `keras_program`, by `--auto`. Each turn starts its ranks again: what glibc has learnt by
then lasts as long as the process.

python -m benchmarks.malloc_jax [--pairs 7] [-n 1 2]
"""

from __future__ import annotations

import argparse
import os
from functools import partial

import jupyter_ddl
from benchmarks.harness import PAIRS, Row, interleave, report
from jupyter_ddl.protocol.cell_options import AutoOptions

# JAX is imported by the cell after this one.
LEAVE_GLIBC = """
from jupyter_ddl.engine import malloc
malloc.keep_freed_memory = lambda: False
"""
TRAIN = """
import resource
from benchmarks import keras_program
samples_per_s = keras_program.fit(world_size)
peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
"""


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", nargs="+", type=int, default=[1, 2], help="ranks (default: 1 2)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"how often each side runs (default: {PAIRS})")
    arguments = parser.parse_args()
    rows, also = [], []
    for n in arguments.n:
        kept_mib: list[float] = []
        left_mib: list[float] = []
        kept, left = partial(trained, n, "", kept_mib), partial(trained, n, LEAVE_GLIBC, left_mib)
        rows.append(Row(f"n={n}", *interleave(kept, left, arguments.pairs), "samples/s"))
        also.append(Row(f"n={n}, peak of a rank", tuple(kept_mib), tuple(left_mib), "MiB"))
    report("malloc_jax", rows, aim=1.0, better="higher", also=also)


def trained(n: int, before: str, peak_mib: list[float]) -> float:
    """Start ranks and train; return samples/s, and add the memory that rank 0 has used at most."""
    name, settings = f"bench-{os.getpid()}", {"KERAS_BACKEND": "jax"}
    with jupyter_ddl.start(n=n, name=name, framework="none", standby="never", env=settings) as session:
        session.run(before)
        session.run(TRAIN, auto=AutoOptions(batch="global"))
        samples_per_s, peak = (session.pull(name, [0])[0] for name in ("samples_per_s", "peak_mib"))
    peak_mib.append(peak)
    return float(samples_per_s)


if __name__ == "__main__":
    main()
