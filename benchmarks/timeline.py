"""What `--timeline` costs: images a second of a cell that is recorded, against one that is not.

A model of few tensors and one of many, since Horovod writes some lines for each tensor of each step, and negotiates
each one again. Both sides run in turns on the same two ranks; only steps are timed.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import jupyter_ddl
from benchmarks.harness import PAIRS, Row, interleave, report

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

N = 2
STEPS = 300
LAYERS = {"12 tensors": 6, "120 tensors": 60}
MODEL = """
import time
import jupyter_ddl.keras as hvd
import keras
import numpy as np

hvd.init()
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(256, "relu") for _ in range({layers} - 1)] + [keras.layers.Dense(10)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.001)), "mse")
images, targets = np.ones((64 * {steps}, 256), "float32"), np.ones((64 * {steps}, 10), "float32")
model.fit(images[:640], targets[:640], batch_size=64, verbose=0)
"""
TRAIN = """
began_s = time.perf_counter()
model.fit(images, targets, batch_size=64, verbose=0)
images_per_s = world_size * len(images) / (time.perf_counter() - began_s)
"""


def main() -> None:
    """Run the benchmark."""
    rows = []
    with jupyter_ddl.start(n=N, name=f"bench-{os.getpid()}") as session:
        for name, layers in LAYERS.items():
            session.run(MODEL.format(layers=layers, steps=STEPS))
            trained = partial(images_per_s, session)
            trained(on=True)
            on, off = interleave(partial(trained, on=True), partial(trained, on=False), PAIRS)
            rows.append(Row(f"n={N} {name}, recorded and not", on, off, "images/s"))
    report("timeline", rows, aim=1 / 1.03, better="higher")


def images_per_s(session: Session, *, on: bool) -> float:
    """Train once; return rank 0's figure."""
    session.run(TRAIN, timeline=on)
    value: float = session.pull("images_per_s", [0])[0]
    return value


if __name__ == "__main__":
    main()
