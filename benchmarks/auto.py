"""How fast `jupyter_ddl.auto` trains against hand-written Horovod, and how much memory its data take.

    python -m benchmarks.auto [--pairs N] [speed] [memory]

| rows | ours | theirs |
|---|---|---|
| speed | a program without Horovod, by `jupyter_ddl.auto()`, 2 ranks | the same model with Horovod by hand, 2 ranks |
| memory | a memory-mapped array in plain Keras, one process | the same by `jupyter_ddl.auto()`, 2 ranks together |

In a row of memory less is better for the ranks, so that the ratio has one process's memory on top: 1 / 1.2 is the aim.

Each turn starts its processes anew. Only whole epochs are timed, after a first one in which TensorFlow compiles: with
what is done between epochs, and without start-up.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.command_line import asked, told
from benchmarks.harness import Row, report, rounds
from benchmarks.training_sides import Figures, on_ranks, our_environment
from jupyter_ddl.datasets import mnist

if TYPE_CHECKING:
    from collections.abc import Callable

N = 2
SPEED, MEMORY = "benchmarks.auto_program", "benchmarks.auto_memory"
WAYS = ("arrays", "arrays, global batch", "tf.data")
AT_LEAST = 0.98
AT_MOST = 1.2
# 300 MB of numbers as they are trained on: a copy too many shows.
MAPPED_SHAPE = (100_000, 784)
GROUPS = ("speed", "memory")


def speed(data: Path, pairs: int) -> list[Row]:
    """Compare images a second."""
    sides: dict[str, Callable[[], Figures]] = {
        side: partial(on_ranks, our_environment(), N, SPEED, [side, str(data), "ANSWER", *WAYS])
        for side in ("auto", "by hand")
    }
    found = rounds(sides, pairs, show=told)
    return [
        Row(
            f"n={N} {way}, against hand-written Horovod",
            tuple(figures[way] for figures in found["auto"]),
            tuple(figures[way] for figures in found["by hand"]),
            "images/s",
            AT_LEAST,
        )
        for way in WAYS
    ]


def memory(data: Path, pairs: int) -> list[Row]:
    """Compare the memory of a host that the data take."""
    sides: dict[str, Callable[[], Figures]] = {
        side: partial(on_ranks, our_environment(), n, MEMORY, [side, str(data), "ANSWER"])
        for side, n in (("auto", N), ("alone", 1))
    }
    found = rounds(sides, pairs, show=told)
    one, ranks = (tuple(figures["data_mb"] for figures in found[side]) for side in ("alone", "auto"))
    return [Row(f"data memory of one process, against that of {N} ranks", one, ranks, "MB", 1 / AT_MOST)]


def main() -> None:
    """Run the benchmark."""
    groups, pairs = asked(__doc__, GROUPS)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="jupyter-ddl-bench-") as folder:
        if "speed" in groups:
            images = Path(folder, "images.npz")
            (x, y), _, _ = mnist(download=False)
            np.savez(images, x=x, y=y)
            rows += speed(images, pairs)
        if "memory" in groups:
            mapped = Path(folder, "mapped.npy")
            np.save(mapped, np.random.default_rng(0).random(MAPPED_SHAPE, dtype="float32"))
            rows += memory(mapped, pairs)
    report("auto", rows, aim=1.0, better="higher")


if __name__ == "__main__":
    main()
