"""What a cell costs before it does anything: `%%distributed` of `print(rank)`, against `%%px` on plain ipyparallel.

Our ranks have imported TensorFlow and used Horovod, as in a training session; ipyparallel's engines have loaded
neither. Both magics run in this process's IPython, one cell after another. The ranks of both clusters live side by
side; a batch of cells on one is followed by a batch on the other. No ranks stand by: their imports would take the cores
from the first pairs.

Neither cell enters a collective, so Horovod stays at rest. The line has rows under "also", which are not judged: a
cell that runs nothing, and one that names Horovod, for which it is initialised on all ranks.
"""

from __future__ import annotations

import io
import logging
import os
import statistics
import time
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from benchmarks.harness import PAIRS, Row, interleave, report
from jupyter_ddl.host import mpi

if TYPE_CHECKING:
    from collections.abc import Iterator

WORLD_SIZES = (2, 4, 8, 16)
CELLS = 60
PAIRS_ALSO = 3
USE_HOROVOD = "import horovod.tensorflow as hvd\nhvd.init()\nassert hvd.size() == world_size\n"


def main() -> None:
    """Run the benchmark."""
    os.environ.update(mpi.launch_environment(mpi.find_mpi()))
    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "jupyter_ddl")
    rows: list[Row] = []
    also: list[Row] = []
    for n in WORLD_SIZES:
        with our_ranks(shell, n), plain_engines(n):
            rows += compare(shell, n, "print(rank)", PAIRS)
            also += compare(shell, n, "pass", PAIRS_ALSO)
            also += compare(shell, n, "print(rank)  # hvd", PAIRS_ALSO)
    report("dispatch", rows, aim=0.8, better="lower", also=also)


def compare(shell: Any, n: int, code: str, pairs: int) -> list[Row]:
    """Return the rows of one world size: p50 and p95 of each batch, by pair."""
    tails: dict[str, list[float]] = {"distributed": [], "px": []}

    def side(magic: str) -> float:
        times_ms = batch(shell, magic, code)
        tails[magic].append(statistics.quantiles(times_ms, n=20)[-1])
        return statistics.median(times_ms)

    for magic in tails:
        batch(shell, magic, code)  # the first cells fill caches on both sides
    medians = interleave(lambda: side("distributed"), lambda: side("px"), pairs)
    return [
        Row(f"n={n} {code} p50", *medians, "ms"),
        Row(f"n={n} {code} p95", tuple(tails["distributed"]), tuple(tails["px"]), "ms"),
    ]


def batch(shell: Any, magic: str, code: str) -> list[float]:
    """Run CELLS cells; return milliseconds of each."""
    times_ms = []
    for _ in range(CELLS):
        began_s = time.perf_counter()
        with redirect_stdout(io.StringIO()):
            shell.run_cell_magic(magic, "", code)
        times_ms.append((time.perf_counter() - began_s) * 1000)
    return times_ms


@contextmanager
def our_ranks(shell: Any, n: int) -> Iterator[None]:
    """Hold ranks of ours on which Horovod has been used."""
    shell.run_line_magic("ddl", f"start -n {n} --name bench-{os.getpid()} --standby never")
    try:
        shell.run_cell_magic("distributed", "", USE_HOROVOD)
        yield
    finally:
        shell.run_line_magic("ddl", "stop")


@contextmanager
def plain_engines(n: int) -> Iterator[None]:
    """Hold ipyparallel's own MPI engines, as the target of %%px."""
    import ipyparallel

    cluster = ipyparallel.Cluster(n=n, engines="mpi", log_level=logging.ERROR)
    client = cluster.start_and_connect_sync()
    view = client[:]
    view.block = True
    view.activate()
    view.scatter("rank", range(n), flatten=True, block=True)
    try:
        yield
    finally:
        client.close()
        cluster.stop_cluster_sync()


if __name__ == "__main__":
    main()
