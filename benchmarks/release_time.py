"""How long ranks wait for one that has raised, in each library's collective: milliseconds until all ranks are free.

python -m benchmarks.release_time [--turns 10] [-n 2]

The last rank raises a second after the cell began, while the others wait for it in a collective. Each figure is the
time from that moment until the cell has ended on all ranks, on one host, whose processes share a clock. The aim is a
second, of the median; half a second of it is the grace time in which other ranks may raise by themselves. A library
that is missing is named: TensorFlow with Horovod, and PyTorch with JAX, are often in two environments.
"""

from __future__ import annotations

import argparse
import os
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import Row, report
from jupyter_ddl.errors import RankError
from jupyter_ddl.host import mpi

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

AIM_MS = 1000.0
_JAX = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
jax.distributed.initialize()
spread = NamedSharding(Mesh(jax.devices(), ("x",)), P("x"))
summed = jax.jit(lambda values: values.sum())
"""
# By library: what a start imports, what makes the ranks ready for a collective, and the collective.
LIBRARIES = {
    "horovod": (
        "tensorflow",
        "import tensorflow as tf, horovod.tensorflow as hvd\nhvd.init()",
        "hvd.allreduce(tf.ones(1))",
    ),
    "torch": (
        "torch",
        "import torch, torch.distributed as dist\ndist.is_initialized() or dist.init_process_group()",
        "dist.all_reduce(torch.ones(1))",
    ),
    "jax": (
        "jax",
        _JAX,
        "float(summed(jax.make_array_from_process_local_data(spread, np.ones(1, np.float32))))",
    ),
}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10, help="releases of each library (default: 10)")
    parser.add_argument("-n", type=int, default=2, help="ranks (default: 2)")
    arguments = parser.parse_args()
    os.environ.update(mpi.launch_environment(mpi.find_mpi()))
    began_load = os.getloadavg()[0]
    rows, missing = [], {}
    for library, (framework, ready, collective) in LIBRARIES.items():
        if find_spec(library) is None:
            missing[library] = "not installed in this environment"
            continue
        with jupyter_ddl.start(n=arguments.n, name=f"release-{library}-{os.getpid()}", framework=framework) as session:
            turns = tuple(released_ms(session, ready, collective) for _ in range(arguments.turns))
        rows.append(Row(library, turns, (AIM_MS,) * len(turns), "ms"))
    load = f"{began_load:.1f} to {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    report(f"release_time, load {load}", rows, aim=1.0, better="lower", not_measured=missing)


def released_ms(session: Session, ready: str, collective: str) -> float:
    """Have the last rank raise while the others wait; return the milliseconds until the cell had ended on all."""
    last = session.world_size - 1
    session.run(f"{ready}\n{collective}")
    try:
        session.run(
            f"import time\nif rank == {last}:\n    time.sleep(1)\n    raised_s = time.time()\n"
            f"    raise ValueError('on purpose')\n{collective}"
        )
    except RankError:
        ended_s = time.time()
        return 1000 * (ended_s - float(session.pull("raised_s", [last])[last]))
    raise SystemExit("The cell with the fault ended well.")


if __name__ == "__main__":
    main()
