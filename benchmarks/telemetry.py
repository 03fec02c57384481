"""What it costs to watch a training: images a second with everything on, against everything off.

Everything: the sampler, the timestamps in the step, the callback, the record on disk and the dashboard in the kernel.
The model is small on purpose, its steps take a few milliseconds. Both sides run in turns on the same two ranks; each
turn makes its model anew, since whether a step is measured is decided when it is made. Only steps are timed.

The CPU time of a step, by process, says where the difference goes: it is taken of the whole cell, also of the model's
making, which is the same on both sides.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import psutil

import jupyter_ddl
from benchmarks.harness import Nowhere, Row, interleave, report
from jupyter_ddl.views.dashboard import Dashboard

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

N = 2
# A turn differs from the next by a tenth: the median of 7 pairs does not tell 0.99 from 0.93.
PAIRS = 15
PROGRAM = """
import time
import jupyter_ddl.keras as hvd
import keras
import numpy as np

hvd.init()
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(128, "relu"), keras.layers.Dense(128, "relu"), keras.layers.Dense(10)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse", metrics=["mae"])
images, targets = np.ones((32 * STEPS, 64), "float32"), np.ones((32 * STEPS, 10), "float32")
model.fit(images[:640], targets[:640], batch_size=32, verbose=0)
began_s = time.perf_counter()
model.fit(images, targets, batch_size=32, verbose=0)
seconds = time.perf_counter() - began_s
figures = {"images_per_s": world_size * len(images) / seconds, "step_ms": seconds / STEPS * 1000}
"""
STEPS = 2_500


def main() -> None:
    """Run the benchmark."""
    taken: dict[str, list[dict[str, float]]] = {"on": [], "off": []}
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}") as session:

        def side(name: str) -> float:
            before = cpu_ms(session)
            figures = measured(session, on=name == "on")
            used = {who: (after - before[who]) / STEPS for who, after in cpu_ms(session).items()}
            taken[name].append({"a step": figures["step_ms"], **used})
            return figures["images_per_s"]

        side("on")
        taken["on"].clear()
        on, off = interleave(lambda: side("on"), lambda: side("off"), PAIRS)
    also = [
        Row(
            what,
            tuple(figures[what] for figures in taken["on"]),
            tuple(figures[what] for figures in taken["off"]),
            "ms",
        )
        for what in taken["on"][0]
    ]
    report("telemetry", [Row(f"n={N} everything on, off", on, off, "images/s")], aim=0.99, better="higher", also=also)


def cpu_ms(session: Session) -> dict[str, float]:
    """Return how long each process has computed so far, on all cores."""
    processes = {f"CPU of rank {ready.rank} a step": psutil.Process(ready.pid) for ready in session.ranks}
    processes["CPU of the kernel a step"] = psutil.Process()
    times = {who: process.cpu_times() for who, process in processes.items()}
    return {who: 1000 * (spent.user + spent.system) for who, spent in times.items()}


def measured(session: Session, *, on: bool) -> dict[str, float]:
    """Train once; return rank 0's figures."""
    code = PROGRAM.replace("STEPS", str(STEPS))
    if on:
        session.run(code, sample_every_s=1.0, view=lambda _: Dashboard(Nowhere()))
    else:
        session.run(code, sample_every_s=None)
    figures: dict[str, float] = session.pull("figures", [0])[0]
    return figures


if __name__ == "__main__":
    main()
