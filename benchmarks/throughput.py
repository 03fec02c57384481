"""What a notebook costs while it trains: images a second in a cell, against the same text as a script under mpiexec.

Both sides have two ranks, the same number of threads a rank, and the same MPI with the same settings. Only steps are
timed: no start-up, and no compilation by TensorFlow.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import Row, interleave, report
from jupyter_ddl import mpi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.session import Session

N = 2
PROGRAM = Path(__file__).with_name("training_steps.py")
# Of each turn's trainings, the one whose figures are told while it goes on.
SHOWN = "CNN, batch 64"
START_S = 120.0


def in_a_cell(session: Session) -> dict[str, float]:
    """Return images per second by training, from the session's ranks."""
    session.run(f"{PROGRAM.read_text()}\nfigures = measure()")
    figures: dict[str, float] = session.pull("figures", [0])[0]
    return figures


@contextmanager
def script(threads: int) -> Iterator[Callable[[], dict[str, float]]]:
    """Start the script under mpiexec; give a function that returns images per second by training, from its ranks."""
    found = mpi.find_mpi()
    variables = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    environment = {**os.environ, **mpi.launch_environment(found), **dict.fromkeys(variables, str(threads))}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [*mpi.launch_command(found, N), sys.executable, str(PROGRAM), "serve", name]
        with (folder / "printed").open("w") as sink:
            job = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
        turn = 0

        def measured() -> dict[str, float]:
            nonlocal turn
            answer = folder / f"answer-{turn}"
            (folder / f"go-{turn}").touch()
            turn += 1
            while not answer.exists():
                if job.poll() is not None:
                    sys.exit(f"The script failed with {job.returncode}:\n{(folder / 'printed').read_text()[-3000:]}")
                time.sleep(0.02)
            figures: dict[str, float] = json.loads(answer.read_text())
            return figures

        try:
            yield measured
        finally:
            (folder / "stop").touch()
            job.wait(START_S)


def main() -> None:
    """Run the benchmark."""
    figures: dict[str, list[dict[str, float]]] = {"cell": [], "script": []}
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}") as session, script(session.ranks[0].threads) as run_script:

        def measured(side: str) -> float:
            figures[side].append(in_a_cell(session) if side == "cell" else run_script())
            return figures[side][-1][SHOWN]

        for side in figures:  # what either side does only once
            measured(side)
            figures[side].clear()
        interleave(lambda: measured("cell"), lambda: measured("script"))
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
