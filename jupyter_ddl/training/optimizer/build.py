"""Builds an optimizer with all of its variables or none, even if an interrupt comes meanwhile.

Keras marks an optimizer as built before it has all of its variables. If interrupted then, it fails at each later step,
e.g. "'Adam' object has no attribute '_momentums'".

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

from jupyter_ddl.training.backends import ops


def build(optimizer: Any, variables: list[Any]) -> None:
    """Give an optimizer its variables, outside of the graph that is being traced, if it has none yet.

    Keras would in `apply`, which may be in a branch, where no variable can be made.

    Args:
        optimizer: a Keras 3 optimizer.
        variables: what it is to train.
    """
    if optimizer.built:
        return
    # A LossScaleOptimizer builds the one inside it too.
    parts = [optimizer, *([optimizer.inner_optimizer] if hasattr(optimizer, "inner_optimizer") else [])]
    before = [(part, part.built, list(part._variables)) for part in parts]
    try:
        with ops.outside_of_graphs():
            optimizer.build(variables)
    except BaseException:  # an interrupt too
        for part, was_built, kept in before:
            part.built, part._variables[:] = was_built, kept
        raise
    optimizer.built = True
