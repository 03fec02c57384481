"""What it costs to watch a training: images a second with everything on, against everything off.

Everything: the sampler, the timestamps in the step, the callback, the record on disk and the dashboard in the kernel.
The model is small on purpose, its steps take a few milliseconds. Both sides run in turns on the same two ranks; each
turn makes its model anew, since whether a step is measured is decided when it is made. Only steps are timed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import PAIRS, Nowhere, Row, interleave, report
from jupyter_ddl.views.dashboard import Dashboard

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

N = 2
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
    step_ms: dict[str, list[float]] = {"on": [], "off": []}
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}") as session:

        def side(name: str) -> float:
            figures = measured(session, on=name == "on")
            step_ms[name].append(figures["step_ms"])
            return figures["images_per_s"]

        side("on")
        step_ms["on"].clear()
        on, off = interleave(lambda: side("on"), lambda: side("off"), PAIRS)
    also = [Row("a step", tuple(step_ms["on"]), tuple(step_ms["off"]), "ms")]
    report("telemetry", [Row(f"n={N} everything on, off", on, off, "images/s")], aim=0.99, better="higher", also=also)


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
