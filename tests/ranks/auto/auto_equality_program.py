"""Programs of tests/auto_programs on all ranks with `jupyter_ddl.auto(batch="global")`, against one process.

Run by `mpiexec -n N python auto_equality_program.py FOLDER`: some of each kind, since each program is traced twice.
auto_equality_every_program.py takes all.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import auto_samples
import numpy as np
from auto_equality_names import OWN_RULES, SOME
from auto_programs import Outcome, run_in
from mpi4py import MPI  # owns MPI, as in our engine: Horovod's shutdown must not finalise it

if TYPE_CHECKING:
    from collections.abc import Sequence

WORLD = MPI.COMM_WORLD
FOLDER = Path(sys.argv[1])


def folder_of(*parts: str) -> Path:
    folder = FOLDER.joinpath(*parts)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def alone(programs: Sequence[str]) -> dict[str, Outcome]:
    """Return what one process leaves behind, by program; each program is run by one of the ranks."""
    mine = {}
    for name in programs[WORLD.rank :: WORLD.size]:
        outcome = run_in(folder_of("alone", name), name)
        mine[name] = Outcome(outcome.weights, outcome.history, outcome.results, outcome.predictions, {})
    return {name: outcome for part in WORLD.allgather(mine) for name, outcome in part.items()}


def compare(name: str, wanted: Outcome) -> dict[str, Any]:
    from numerics_models import distances, identical_everywhere

    # One folder for all ranks, as it would be.
    found = run_in(folder_of("together", name), name)
    answer = {
        "identical": identical_everywhere(found.weights),
        "difference": max(distances(found.weights, wanted.weights)),
        "history": [found.history, wanted.history],
        "results": [found.results, wanted.results],
        "shapes": [[part.shape for part in outcome.predictions] for outcome in (found, wanted)],
        "predictions": [float(np.abs(a - b).max()) for a, b in zip(found.predictions, wanted.predictions, strict=True)],
    }
    if name in OWN_RULES:
        answer |= by_own_rule(found)
    return answer


def by_own_rule(found: Outcome) -> dict[str, Any]:
    names = found.names
    if "drawn" in names:
        return {"drawn": np.asarray(names["drawn"](names["sample"], training=True)).ravel().tolist()}
    layer = names["model"].layers[0]
    moving = [np.asarray(layer.moving_mean), np.asarray(layer.moving_variance)]
    return {"moving": distances_to(moving, moving_averages(names["x"]))}


def distances_to(found: list[np.ndarray], wanted: list[np.ndarray]) -> list[float]:
    return [float(np.abs(a - b).max()) for a, b in zip(found, wanted, strict=True)]


def moving_averages(x: np.ndarray) -> list[np.ndarray]:
    """Return the mean over the ranks of what each one's part of the batches gives.

    The settings are the program's: its first layer normalises batches of 24 for 3 epochs, with momentum 0.8.
    """
    mean, variance = np.zeros(x.shape[1]), np.ones(x.shape[1])
    for batch in [*np.split(x, len(x) // 24)] * 3:
        parts = np.split(batch.astype("float64"), WORLD.size)
        mean = 0.8 * mean + 0.2 * np.mean([part.mean(axis=0) for part in parts], axis=0)
        variance = 0.8 * variance + 0.2 * np.mean([part.var(axis=0) for part in parts], axis=0)
    return [mean, variance]


def main(programs: Sequence[str], *, with_samples: bool = True) -> None:
    # Before anything of ours or of Horovod's is imported: plain Keras.
    wanted = alone(programs)
    orders = auto_samples.alone(WORLD) if with_samples else None

    import numerics_harness

    import jupyter_ddl

    numerics_harness.FINDINGS.update({name: partial(compare, name, outcome) for name, outcome in wanted.items()})
    if with_samples:
        numerics_harness.FINDINGS.update(auto_samples.findings())
        numerics_harness.FINDINGS["samples alone"] = lambda: orders
    jupyter_ddl.auto(batch="global")
    numerics_harness.take_all()


if __name__ == "__main__":
    main(SOME)
