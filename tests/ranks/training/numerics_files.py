"""A training that is saved half-way on these ranks, to be resumed on others.

Run by `mpiexec -n N python numerics_files.py FOLDER`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import keras
import numpy as np
from numerics_harness import FOLDER, finding, take_all
from numerics_models import STEPS, by_fit, dense_model, global_batches, seeded, shard

import jupyter_ddl.keras as hvd

HALF = STEPS // 2
ADAGRAD = partial(keras.optimizers.Adagrad, 0.1)
SGD = partial(keras.optimizers.SGD, 0.1, momentum=0.9)
OPTIMIZERS = {"SGD": SGD, "Adagrad": ADAGRAD, "Adam": partial(keras.optimizers.Adam, 0.01)}


@finding
def saved_half_way() -> dict[str, Any]:
    """Rank 0 saves after half of the steps; its weights and state are told exactly."""
    answers = {}
    for name, make_optimizer in OPTIMIZERS.items():
        model = seeded(dense_model)
        optimizer = hvd.DistributedOptimizer(make_optimizer())
        by_fit(model, optimizer, shard(global_batches(model)[:HALF]))
        if hvd.rank() == 0:
            for suffix in ("keras", "h5"):
                model.save(FOLDER / f"{name}.{suffix}")
            np.savez(FOLDER / f"{name}-state.npz", *(v.numpy() for v in (*model.weights, *optimizer.variables)))
        answers[name] = int(optimizer.iterations.numpy())
    return answers


if __name__ == "__main__":
    take_all()
