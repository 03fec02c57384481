"""How fast training is: images a second against other ways to train on two processes, and when a rank is added.

    python -m benchmarks.training [--pairs N] [horovod] [distribute] [scaling] [exchange]

| rows | ours | theirs |
|---|---|---|
| horovod | 2 ranks | stock Horovod on TensorFlow 2.15 and Keras 2.15, 2 ranks |
| distribute | 2 ranks | tf.distribute: MultiWorkerMirroredStrategy with 2 workers; MirroredStrategy on 2 logical CPUs |
| scaling | 2 ranks of one core each, images a second a rank | 1 rank of one core |
| exchange | DistributedOptimizer's exchange of 100 MB | mpi4py's Allreduce of one buffer of 100 MB |
| versions (not judged) | one process, without Horovod | one process of TensorFlow 2.15 and Keras 2.15 |

Both sides of a row have the same model, data and number of threads, and only steps are timed: no start-up, and no
compilation by TensorFlow. Each turn starts its processes anew: one process is up to a tenth faster or slower than the
next for all its life, which no number of turns of the same two would even out.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks import rival_horovod
from benchmarks.command_line import asked, told
from benchmarks.harness import Row, report, rounds
from benchmarks.training_sides import Figures, as_one_process, as_workers, on_ranks, our_environment
from jupyter_ddl.datasets import mnist

if TYPE_CHECKING:
    from collections.abc import Callable

    Sides = dict[str, Callable[[], Figures]]

N = 2
TRAIN, EXCHANGE = "benchmarks.training_program", "benchmarks.exchange_program"
CNN, LARGE = "CNN, batch 128", "25 M parameters, batch 256"
STOCK, WORKERS, MIRRORED, ALONE = "stock Horovod", "MultiWorkerMirrored", "Mirrored", "one process"
GROUPS = ("horovod", "distribute", "scaling", "exchange", "versions")


class Benchmark:
    """The rows, as they are measured.

    Attributes:
        rows: what is judged.
        also: what is told and not judged.
        not_measured: rows that this machine cannot measure, and why.
    """

    def __init__(self, data: Path, pairs: int) -> None:
        self._data = str(data)
        self._pairs = pairs
        self.rows: list[Row] = []
        self.also: list[Row] = []
        self.not_measured: dict[str, str] = {}

    def against_rivals(self, *, horovod: bool, distribute: bool) -> None:
        """Compare with stock Horovod and tf.distribute; all take turns, so that our side runs once for all of them."""
        sides: Sides = {}
        if horovod:
            sides |= self._stock_horovod()
        if distribute:
            sides |= self._strategies()
        if not sides:
            return
        ours = partial(on_ranks, our_environment(), N, TRAIN, self._arguments("ours", CNN, *[LARGE] * (STOCK in sides)))
        found = rounds({"ours": ours, **sides}, self._pairs, show=told)
        for rival, training, aim in (
            (STOCK, CNN, 1.0),
            (STOCK, LARGE, 1.0),
            (WORKERS, CNN, 1.1),
            (MIRRORED, CNN, 1.1),
        ):
            if rival in sides:
                pair = _figures(found["ours"], training), _figures(found[rival], training)
                self.rows.append(Row(f"n={N} {training}, against {rival}", *pair, "images/s", aim))

    def scaling(self) -> None:
        """Compare two ranks of one core each with one rank of one core."""
        cores = len(os.sched_getaffinity(0))
        if cores < N:
            self.not_measured["scaling"] = f"it takes {N} cores, and this process may use {cores}"
            return
        here = our_environment()
        sides: Sides = {str(n): partial(on_ranks, here, n, TRAIN, self._arguments("ours", CNN, LARGE)) for n in (N, 1)}
        # What the first rank itself costs.
        sides[ALONE] = partial(on_ranks, here, 1, TRAIN, self._arguments(ALONE, CNN, LARGE))
        found = rounds(sides, self._pairs, show=told)
        for training, aim in ((CNN, 0.92), (LARGE, 0.75)):
            a_rank = tuple(figure / N for figure in _figures(found[str(N)], training))
            name = f"{N} ranks of one core, {training}, against"
            self.rows.append(Row(f"{name} 1 rank", a_rank, _figures(found["1"], training), "images/s a rank", aim))
            self.also.append(Row(f"{name} {ALONE}", a_rank, _figures(found[ALONE], training), "images/s a rank"))

    def exchange(self) -> None:
        """Compare the exchange alone with mpi4py's Allreduce."""
        here = our_environment()
        sides: Sides = {way: partial(on_ranks, here, N, EXCHANGE, [way, "ANSWER"]) for way in ("ours", "mpi4py")}
        found = rounds(sides, self._pairs, show=told)
        pair = _figures(found["ours"], "exchange"), _figures(found["mpi4py"], "exchange")
        self.rows.append(Row(f"n={N} exchange of 100 MB, against mpi4py's Allreduce", *pair, "MB/s", 1.4))

    def versions(self) -> None:
        """Compare what the sides of the first rows stand on: how much of their ratio is TensorFlow's and Keras's."""
        try:
            before = rival_horovod.environment()
        except rival_horovod.NotAvailable as problem:
            self.not_measured["versions"] = str(problem)
            return
        arguments = self._arguments(ALONE, CNN, LARGE)
        sides: Sides = {
            "now": partial(on_ranks, our_environment(), 1, TRAIN, arguments),
            "2.15": partial(on_ranks, before, 1, TRAIN, arguments),
        }
        found = rounds(sides, self._pairs, show=told)
        for training in (CNN, LARGE):
            pair = _figures(found["now"], training), _figures(found["2.15"], training)
            self.also.append(Row(f"1 process, {training}, against TensorFlow 2.15", *pair, "images/s"))

    def _stock_horovod(self) -> Sides:
        try:
            environment = rival_horovod.environment()
        except rival_horovod.NotAvailable as problem:
            self.not_measured[STOCK] = str(problem)
            return {}
        return {STOCK: partial(on_ranks, environment, N, TRAIN, self._arguments(STOCK, CNN, LARGE))}

    def _strategies(self) -> Sides:
        if find_spec("tf_keras") is None:
            self.not_measured["tf.distribute"] = "it takes tf_keras: pip install 'jupyter_ddl[bench]'"
            return {}
        return {
            WORKERS: partial(as_workers, N, self._arguments(WORKERS, CNN)),
            MIRRORED: partial(as_one_process, N, self._arguments(MIRRORED, CNN)),
        }

    def _arguments(self, side: str, *trainings: str) -> list[str]:
        return [side, self._data, "ANSWER", *trainings]


def _figures(measured: list[Figures], training: str) -> tuple[float, ...]:
    return tuple(figures[training] for figures in measured)


def main() -> None:
    """Run the benchmark."""
    groups, pairs = asked(__doc__, GROUPS)
    with tempfile.TemporaryDirectory(prefix="jupyter-ddl-bench-") as folder:
        data = Path(folder, "data.npz")
        (x, y), _, _ = mnist(download=False)
        np.savez(data, x=x, y=y)
        benchmark = Benchmark(data, pairs)
        if groups & {"horovod", "distribute"}:
            benchmark.against_rivals(horovod="horovod" in groups, distribute="distribute" in groups)
        if "scaling" in groups:
            benchmark.scaling()
        if "exchange" in groups:
            benchmark.exchange()
        if "versions" in groups:
            benchmark.versions()
    if not benchmark.rows:
        sys.exit(f"No row could be measured: {benchmark.not_measured}")
    report(
        "training",
        benchmark.rows,
        aim=1.0,
        better="higher",
        also=benchmark.also,
        not_measured=benchmark.not_measured,
    )


if __name__ == "__main__":
    main()
