"""Lists Keras's optimizers: the default learning rate of each, and how it grows with the batch."""

from __future__ import annotations

from jupyter_ddl.modernise import names

# Source: keras 3.15, src/optimizers/*.py, the default of learning_rate
RATES = {**names.OPTIMIZERS, "Muon": "0.001", "ScheduleFreeAdamW": "0.0025"}
_BY_LOWER_CASE = {name.lower(): name for name in RATES}


def class_of_string(text: str) -> str | None:
    """Return the optimizer that `compile(optimizer=text)` makes; Keras does not mind the case."""
    return _BY_LOWER_CASE.get(text.lower())


def class_of(meaning: str) -> str | None:
    """Return the optimizer that a canonical name stands for; None for other names."""
    known = names.optimizer_class(meaning)
    if known is not None:
        return known
    module, _, name = meaning.rpartition(".")
    return name if module == "keras.optimizers" and name in RATES else None
