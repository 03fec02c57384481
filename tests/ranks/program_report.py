"""Runs as a cell on every rank after a program, in the program's own names, and leaves `report` for the test to pull.

It raises where the ranks hold different weights. It looks at what any program leaves behind, so that programs need not
know of it: models, `history` or `losses`.
"""

import keras
import numpy as np

import jupyter_ddl.keras as _ddl


def _report(names):
    models = {name: value for name, value in sorted(names.items()) if isinstance(value, keras.Model) and value.weights}
    unique = {id(model): (name, model) for name, model in models.items()}.values()
    # A model that rank 0 alone has read from its file is no matter of all.
    everywhere = set.intersection(*map(set, _ddl.allgather_object(list(models), name="report_models")))
    unique = [(name, model) for name, model in unique if name in everywhere]
    history = names.get("history")
    losses = history.history["loss"] if history is not None else names.get("losses", [])
    return {
        "checksums": {name: _ddl.check_in_sync(model) for name, model in unique},
        "every rank's values": {
            name: _ddl.allgather_object(np.ravel(names[name]).tolist(), name=f"report_{name}")
            for name in ("line", "weights")
            if name in names
        },
        "iterations": _iterations(unique, names),
        "losses": [float(np.mean(value)) for value in losses],
        "history": sorted(history.history) if history is not None else [],
    }


def _iterations(models, names):
    optimizers = [model.optimizer for _, model in models if getattr(model, "optimizer", None) is not None]
    optimizers += [value for value in names.values() if isinstance(value, keras.optimizers.Optimizer)]
    return sum(int(optimizer.iterations) for optimizer in {id(each): each for each in optimizers}.values())


report = _report(dict(globals()))
