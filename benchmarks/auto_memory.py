"""One process of one side of the data's memory: `python -m benchmarks.auto_memory SIDE DATA ANSWER`.

Trains for one epoch on the array in the file DATA, which is mapped and not read. A process's memory is its
proportional set size, in which a page that two processes share counts half in each, so that the sum over the ranks of
a host is what they take of it. What counts is the peak of that epoch beyond the peak of one on a small array.

Runs on: every process of both sides.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_SIZE = 256
SMALL = 4 * BATCH_SIZE
INTERVAL_S = 0.05


class Peak:
    """The largest proportional set size of this process, looked for by a thread."""

    def __init__(self) -> None:
        self.mb = 0.0
        self._ended = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look while the block runs."""
        watch = threading.Thread(target=self._watch)
        watch.start()
        try:
            yield
        finally:
            self._ended.set()
            watch.join()

    def _watch(self) -> None:
        while True:
            self.mb = max(self.mb, proportional_set_size_mb())
            if self._ended.wait(INTERVAL_S):
                return


def proportional_set_size_mb() -> float:
    """Return this process's, as the kernel tells it."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.MULTILINE)
    assert found, "Linux 4.14 and newer tell it"
    return int(found[1]) / 1024


def peak_of_fit(model: Any, x: Any) -> float:
    """Train for an epoch; return the peak in MB."""
    y = np.zeros(len(x), "int32")
    peak = Peak()
    with peak.watched():
        model.fit(x, y, batch_size=BATCH_SIZE, verbose=0)
    return peak.mb


def main() -> None:
    """Run this process's part."""
    side, data, answer = sys.argv[1:]
    if side == "auto":
        import jupyter_ddl
        import jupyter_ddl.keras as hvd  # not above: the other side is plain Keras

        jupyter_ddl.auto()
    mapped = np.load(data, mmap_mode="r")
    layers = keras.layers
    model = keras.Sequential([keras.Input(mapped.shape[1:]), layers.Dense(16, activation="relu"), layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-3), loss=loss)
    before = peak_of_fit(model, np.zeros((SMALL, *mapped.shape[1:]), mapped.dtype))
    mine = peak_of_fit(model, mapped) - before
    if side == "auto":
        total = float(hvd.allreduce(mine, op=hvd.Sum))
        writes = hvd.rank() == 0
    else:
        total, writes = mine, True
    if writes:
        Path(answer).write_text(json.dumps({"data_mb": total}))


if __name__ == "__main__":
    main()
