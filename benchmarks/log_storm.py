"""Ranks that print without end: 100,000 lines on each of two, as a cell of ours, of %%px, and as a script into files.

Two real kernels, one a magic, each driven as a notebook drives it. Every line must be in the ranks' logs afterwards,
which is checked; that of %%px has no logs. The kernel's memory is told before and after.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_client.manager import start_new_kernel

from benchmarks.harness import Row, report, rounds
from jupyter_ddl import paths
from jupyter_ddl.host import mpi

if TYPE_CHECKING:
    from collections.abc import Iterator

N = 2
LINES = 100_000
ROUNDS = 5
PRINT = f"for line in range({LINES}): print('this is line', line, 'of this rank')"
START_OURS = f"%load_ext jupyter_ddl\n%ddl start -n {N} --name storm"
START_PX = f"""
import logging, ipyparallel
cluster = ipyparallel.Cluster(n={N}, engines='mpi', log_level=logging.ERROR)
client = cluster.start_and_connect_sync()
view = client[:]
view.block = True
view.activate()
"""
AIM_PX, AIM_SCRIPT = 0.2, 1.5
MEMORY_LIMIT_MB = 50


def main() -> None:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[paths.RUNS_VARIABLE] = folder
        os.environ.update(mpi.launch_environment(mpi.find_mpi()))
        with notebook(START_OURS, "%ddl stop") as ours, notebook(START_PX, "cluster.stop_cluster_sync()") as px:
            growth_mb: list[float] = []

            def cell() -> float:
                before_mb = memory_mb(ours)
                seconds = timed(ours, f"%%distributed\n{PRINT}")
                growth_mb.append(memory_mb(ours) - before_mb)
                check_logs(max(Path(folder).iterdir()))
                return seconds

            cell()  # the first one imports the views
            growth_mb.clear()
            sides = {
                "cell": cell,
                "px": lambda: timed(px, f"%%px\n{PRINT}"),
                "script": script,
                "script that keeps lines": lambda: script(buffering=1),
            }
            seconds = rounds(sides, ROUNDS, show="{:.2f} s".format)
    cells = tuple(seconds["cell"])
    rows = [
        Row("a cell, %%px", cells, tuple(seconds["px"]), "s", aim=AIM_PX),
        Row("a cell, a script into files", cells, tuple(seconds["script"]), "s", aim=AIM_SCRIPT),
        # All rounds together: what one leaves the next may use again.
        Row("the kernel's memory, its limit", (sum(growth_mb),), (MEMORY_LIMIT_MB,), "MB", aim=1.0),
    ]
    safe = tuple(seconds["script that keeps lines"])
    also = [Row("a cell, a script that writes each line at once", cells, safe, "s")]
    report("log_storm", rows, aim=1.0, better="lower", also=also)


@contextmanager
def notebook(start: str, stop: str) -> Iterator[Any]:
    """Hold a kernel on which `start` has run."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        timed(client, start)
        yield client
        timed(client, stop)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()


def timed(client: Any, code: str) -> float:
    """Run a cell, take its output as a notebook would, and return the seconds."""
    began_s = time.perf_counter()
    reply = client.execute_interactive(code, timeout=600, output_hook=lambda _: None)
    seconds = time.perf_counter() - began_s
    if reply["content"]["status"] != "ok":
        sys.exit("\n".join(reply["content"]["traceback"]))
    return seconds


def memory_mb(client: Any) -> float:
    """Return the kernel's resident memory."""
    reply = client.execute_interactive(
        "import psutil as _psutil",
        user_expressions={"rss": "_psutil.Process().memory_info().rss"},
        output_hook=lambda _: None,
    )
    return int(reply["content"]["user_expressions"]["rss"]["data"]["text/plain"]) / 2**20


def check_logs(folder: Path) -> None:
    """End the benchmark where a line is missing."""
    wanted = "".join(f"this is line {line} of this rank\n" for line in range(LINES)).encode()
    for rank in range(N):
        if (folder / f"rank-{rank}.log").read_bytes() != wanted:
            sys.exit(f"The log of rank {rank} does not have every line: {folder}")


def script(buffering: int = -1) -> float:
    """Return the seconds of the same text as a script under mpiexec, each rank into a file of its own.

    Args:
        buffering: of the file. By default Python writes 8 KB at a time, which a kill would lose; with 1 each line, as a
            rank of ours does.
    """
    found = mpi.find_mpi()
    with tempfile.TemporaryDirectory() as folder:
        sink = f"open(f'{folder}/{{MPI.COMM_WORLD.rank}}', 'w', {buffering})"
        program = f"import sys\nfrom mpi4py import MPI\nsys.stdout = {sink}\n"
        # What is timed is what the cells are timed for: no start-up.
        program += f"import time\nMPI.COMM_WORLD.Barrier()\nbegan = time.perf_counter()\n{PRINT}\nsys.stdout.flush()\n"
        program += "MPI.COMM_WORLD.Barrier()\nprint(time.perf_counter() - began, file=sys.stderr)"
        command = [*mpi.launch_command(found, N), sys.executable, "-c", program]
        environment = {**os.environ, **mpi.launch_environment(found)}
        job = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return max(float(line) for line in job.stderr.split())


if __name__ == "__main__":
    main()
