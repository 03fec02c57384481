"""What a notebook costs while it trains: images a second in a cell, against the same text as a script under mpiexec.

Both sides have two ranks, the same number of threads a rank, and the same MPI with the same settings. Only steps are
timed: no start-up, and no compilation by TensorFlow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import Row, interleave, report
from jupyter_ddl import mpi

if TYPE_CHECKING:
    from jupyter_ddl.session import Session

N = 2
PROGRAM = Path(__file__).with_name("training_steps.py")


def in_a_cell(session: Session) -> dict[str, float]:
    """Return images per second by training, from the session's ranks."""
    session.run(f"{PROGRAM.read_text()}\nfigures = measure()")
    figures: dict[str, float] = session.pull("figures", [0])[0]
    return figures


def as_script(threads: int) -> dict[str, float]:
    """Return images per second by training, from a script under mpiexec."""
    found = mpi.find_mpi()
    variables = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    environment = {
        **os.environ,
        **mpi.launch_environment(found),
        **dict.fromkeys(variables, str(threads)),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    command = [*mpi.launch_command(found, N), sys.executable, str(PROGRAM), "as-script"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"The script failed with {done.returncode}:\n{done.stderr[-3000:]}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Run the benchmark."""
    ours: list[dict[str, float]] = []
    theirs: list[dict[str, float]] = []
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}") as session:
        threads = session.ranks[0].threads

        def cell() -> float:
            ours.append(in_a_cell(session))
            return next(iter(ours[-1].values()))

        def script() -> float:
            theirs.append(as_script(threads))
            return next(iter(theirs[-1].values()))

        interleave(cell, script)
    rows = [
        Row(f"n={N} {training}", tuple(f[training] for f in ours), tuple(f[training] for f in theirs), "images/s")
        for training in ours[0]
    ]
    report("throughput", rows, aim=0.98, better="higher")


if __name__ == "__main__":
    main()
