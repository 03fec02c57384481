"""What a notebook costs while it trains: images a second in a cell, against the same text as a script under mpiexec.

Both sides have two ranks, the same number of threads a rank, kept to the same cores, and the same MPI with the same
settings. Only steps are timed: no start-up, and no compilation by TensorFlow. Each turn starts its ranks anew: one
process is up to a tenth faster or slower than the next for all its life, which no number of turns of the same two would
even out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jupyter_ddl
from benchmarks.harness import Row, interleave, report
from jupyter_ddl.host import mpi
from jupyter_ddl.host.cores import share_of_cores

N = 2
PAIRS = 9
PROGRAM = Path(__file__).with_name("training_steps.py")
# Of each turn's trainings, the one whose figures are told while it goes on.
SHOWN = "CNN, batch 64"


def in_a_cell() -> dict[str, float]:
    """Return images per second by training, from a cell on new ranks."""
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}") as session:
        session.run(f"{PROGRAM.read_text()}\nfigures = measure()")
        figures: dict[str, float] = session.pull("figures", [0])[0]
    return figures


def in_a_script() -> dict[str, float]:
    """Return images per second by training, from a script under mpiexec."""
    found = mpi.find_mpi()
    variables = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    threads = dict.fromkeys(variables, str(share_of_cores(0, N)))
    with tempfile.TemporaryDirectory() as folder:
        answer, printed = Path(folder, "answer.json"), Path(folder, "printed")
        command = [*mpi.launch_command(found, N), sys.executable, str(PROGRAM), "measure", str(answer)]
        with printed.open("w") as sink:
            environment = {**os.environ, **mpi.launch_environment(found), **threads}
            job = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, check=False
            )
        if job.returncode:
            sys.exit(f"The script failed with {job.returncode}:\n{printed.read_text()[-3000:]}")
        figures: dict[str, float] = json.loads(answer.read_text())
    return figures


def main() -> None:
    """Run the benchmark."""
    figures: dict[str, list[dict[str, float]]] = {"cell": [], "script": []}

    def measured(side: str) -> float:
        figures[side].append(in_a_cell() if side == "cell" else in_a_script())
        return figures[side][-1][SHOWN]

    interleave(lambda: measured("cell"), lambda: measured("script"), PAIRS)
    rows = [
        Row(
            f"n={N} {training}",
            tuple(pair[training] for pair in figures["cell"]),
            tuple(pair[training] for pair in figures["script"]),
            "images/s",
        )
        for training in sorted(figures["cell"][0])
    ]
    report("throughput", rows, aim=0.98, better="higher")


if __name__ == "__main__":
    main()
