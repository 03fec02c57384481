"""What a cell of `print(rank)` takes over 64, 256 and 1,024 ranks, against `%%px`, and what it costs the kernel.

The controller is ipyparallel's own, and the kernel's side of both magics is the real one, in this process, up to the
text that the cell shows. The engines are simulated by four processes (`simulated_engines`), alike for both sides: they
take and answer each message, and run nothing. On two cores they take most of a cell's time, on either side.
"""

from __future__ import annotations

import io
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ipyparallel
from IPython.core.interactiveshell import InteractiveShell

from benchmarks.channel_only import ChannelOnly, runs_on
from benchmarks.harness import Row, interleave, report
from benchmarks.simulated_engines import WORLD_ID
from jupyter_ddl import paths
from jupyter_ddl.kernel.run_follower import Follower
from jupyter_ddl.protocol.events import RunStarted
from jupyter_ddl.protocol.requests import RunCell
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.views.selection import current_publisher, for_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.kernel.active_runs import ActiveRuns

WORLD_SIZES = tuple(map(int, sys.argv[1:])) or (64, 256, 1_024)
PROCESSES = 4
PAIRS = 5
CELLS = 5
CODE = "print(rank)"
AIM, CPU_AIM_S = 0.25, 0.3
FILES = 16_384
WAIT_S = 120
PROGRAM = (sys.executable, "-m", "benchmarks.simulated_engines")


def main() -> None:
    """Run the benchmark."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, max(FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    InteractiveShell.instance()
    rows = [row for n in WORLD_SIZES for row in compare(n)]
    judged = [row for row in rows if row.aim is not None]
    report("dispatch_wide", judged, aim=1.0, better="lower", also=[row for row in rows if row.aim is None])


def compare(n: int) -> list[Row]:
    """Return the rows of one world size: the time of a cell, and the kernel's CPU time in ours."""
    with tempfile.TemporaryDirectory() as folder, engines(n) as connection_file:
        os.environ[paths.RUNS_VARIABLE] = folder
        cluster = ChannelOnly(connection_file, WORLD_ID, n)
        runs = runs_on(cluster)
        cpu_s: list[float] = []

        def ours() -> float:
            before = time.process_time()
            seconds = batch(lambda: distributed(cluster, runs, n))
            cpu_s.append((time.process_time() - before) / CELLS)
            return seconds

        def theirs() -> float:
            # Only for its turn: each message of ours would go to it too.
            with ipyparallel.Client(str(connection_file)) as client:
                client.wait_for_engines(n, timeout=WAIT_S, interactive=False)
                view = client[:]
                px(view, n)
                return batch(lambda: px(view, n))

        ours()  # the first cells fill caches, on the other side with each client
        cpu_s.clear()
        medians = interleave(ours, theirs, PAIRS)
        cluster.channel.close()
    largest = n == WORLD_SIZES[-1]
    limits = tuple(CPU_AIM_S for _ in cpu_s)
    return [
        Row(f"n={n} p50", *medians, "s", aim=AIM if largest else None),
        Row(f"n={n} the kernel's CPU time a cell, the limit", tuple(cpu_s), limits, "s", aim=1.0 if largest else None),
    ]


def batch(cell: Callable[[], None]) -> float:
    """Run CELLS cells; return the median of their seconds."""
    seconds = []
    for _ in range(CELLS):
        began_s = time.perf_counter()
        cell()
        seconds.append(time.perf_counter() - began_s)
    return statistics.median(seconds)


def distributed(cluster: ChannelOnly, runs: ActiveRuns, n: int) -> None:
    """Run a cell as `%%distributed` does, and check what it shows."""
    run = Run(RunFolder("wide"), tuple(range(n)), n)
    with redirect_stdout(io.StringIO()) as shown:
        follower = Follower(run, runs, for_environment(current_publisher(), run.ranks, None), None)
        run.take(RunStarted(run.id, run.ranks, n, run.folder.start_s))
        runs.begin(run)
        cluster.send(RunCell(run.id, CODE, run.ranks, False, run.folder.log_dir), run.ranks)
        follower.wait()
    check(shown.getvalue(), n)


def px(view: Any, n: int) -> None:
    """Run a cell as `%%px` does, and check what it shows."""
    with redirect_stdout(io.StringIO()) as shown:
        result = view.execute(CODE, silent=False, block=False)
        result.get()
        result.display_outputs(groupby="type")
    check(shown.getvalue(), n)


def check(shown: str, n: int) -> None:
    """End the benchmark where a rank's line is missing."""
    if not all(str(rank) in shown for rank in (0, n - 1)) or shown.count("\n") < n:
        sys.exit(f"The cell shows {len(shown)} characters, and not a line of each of {n} ranks: {shown[:300]!r}")


@contextmanager
def engines(n: int) -> Iterator[Path]:
    """Hold a controller with simulated engines; yield the connection file for clients."""
    with tempfile.TemporaryDirectory() as profile:
        cluster = ipyparallel.Cluster(n=0, profile_dir=profile, log_level=logging.ERROR)
        cluster.start_controller_sync()
        registered = cluster.connect_client_sync()
        security = Path(profile, "security")
        for_engines, for_clients = (next(security.glob(f"*-{kind}.json")) for kind in ("engine", "client"))
        each = n // PROCESSES
        processes = [
            subprocess.Popen(
                [*PROGRAM, str(for_engines), str(i * each), str(i * each + each - 1)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for i in range(PROCESSES)
        ]
        try:
            for process in processes:
                assert process.stdout is not None
                if not process.stdout.readline():
                    sys.exit("Engines were not registered.")
            registered.wait_for_engines(n, timeout=WAIT_S, interactive=False)
            registered.close()
            yield for_clients
        finally:
            for process in processes:
                assert process.stdin is not None
                process.stdin.close()
                process.wait()
            cluster.stop_cluster_sync()


if __name__ == "__main__":
    main()
