"""Resume, on these ranks, what numerics_files.py saved on others.

Run by `mpiexec -n N python numerics_resume_program.py FOLDER` with NUMERICS_SAVED, the folder that holds the files.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numerics_files import HALF, OPTIMIZERS
from numerics_harness import FINDINGS, finding, take_all
from numerics_models import (
    STEPS,
    alone,
    dense_model,
    global_batches,
    identical_everywhere,
    largest,
    shard,
)

import jupyter_ddl.keras as hvd

FINDINGS.clear()
SAVED = Path(os.environ["NUMERICS_SAVED"])


@finding
def resumed() -> dict[str, Any]:
    answers = {}
    for name, make_optimizer in OPTIMIZERS.items():
        with np.load(SAVED / f"{name}-state.npz") as state:
            wanted = [state[key] for key in state]
        for suffix in ("keras", "h5"):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                model = hvd.load_model(SAVED / f"{name}.{suffix}")
            optimizer = model.optimizer
            found = [v.numpy() for v in (*model.weights, *optimizer.variables)]
            before = int(optimizer.iterations.numpy())
            rest = shard(global_batches(model)[HALF:])
            x, y = (np.concatenate(part) for part in zip(*rest, strict=True))
            model.fit(x, y, batch_size=len(rest[0][0]), shuffle=False, verbose=0)
            answers[f"{name}.{suffix}"] = {
                "state": len(found) == len(wanted) and all(map(np.array_equal, found, wanted)),
                "iterations": [before, int(optimizer.iterations.numpy())],
                "difference": largest(model.get_weights(), alone(dense_model, make_optimizer())),
                "identical": identical_everywhere(model.get_weights()),
            }
    return answers


@finding
def without_resuming() -> dict[str, float]:
    """How far off a training ends that begins its second half with a fresh optimizer."""
    batches = global_batches(dense_model(), STEPS)
    answers = {}
    for name, make_optimizer in OPTIMIZERS.items():
        wanted = alone(dense_model, make_optimizer())
        half = alone(dense_model, make_optimizer(), batches[:HALF])
        forgetful = dense_model_of(half)
        answers[name] = largest(alone(forgetful, make_optimizer(), batches[HALF:]), wanted)
    return answers


def dense_model_of(weights: Any) -> Any:
    def make() -> Any:
        model = dense_model()
        model.set_weights(weights)
        return model

    return make


if __name__ == "__main__":
    take_all()
