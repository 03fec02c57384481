"""Checks what the user passes to a distributed optimizer or tape.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import keras

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import BACKEND, TENSORFLOW, global_process_set, hvd, ops
from jupyter_ddl.training.optimizer import groups as gradient_groups


def reduction(op: Any, process_set: Any, *, averages_passes: bool = False) -> Any:
    """Return `op`, if these ranks can reduce gradients by it.

    Raises:
        InvalidInput: they cannot.
    """
    if op not in (hvd.Average, hvd.Sum, hvd.Adasum):
        raise InvalidInput("op must be Average, Sum or Adasum.", f"op={op}", "Pass hvd.Average, hvd.Sum or hvd.Adasum.")
    if op == hvd.Adasum:
        _check_adasum(process_set, averages_passes=averages_passes)
    return op


def _check_adasum(process_set: Any, *, averages_passes: bool) -> None:
    if BACKEND != TENSORFLOW:
        raise InvalidInput(
            f"Adasum is Horovod's, and Keras on {BACKEND} exchanges without it.",
            "op=hvd.Adasum",
            "Pass op=hvd.Average.",
        )
    if process_set is not global_process_set:
        raise InvalidInput(
            "Adasum reduces over all ranks.",
            f"process set of ranks {process_set.ranks}",
            "Leave process_set out, or pass op=hvd.Average.",
        )
    if hvd.size() & (hvd.size() - 1):
        raise InvalidInput(
            "Adasum takes a power of two of ranks.", f"world_size={hvd.size()}", "Start 2, 4, 8, ... ranks."
        )
    if averages_passes:
        raise InvalidInput(
            "Adasum does not go with average_aggregated_gradients.",
            "op=hvd.Adasum, average_aggregated_gradients=True",
            "Leave one of them out.",
        )


def grouping(groups: Any, num_groups: int) -> gradient_groups.Groups:
    """Return `groups`, or the number that older programs pass as `num_groups`.

    Raises:
        InvalidInput: it is neither a number above 0 nor lists of variables.
    """
    chosen = num_groups if groups is None and num_groups else groups
    gradient_groups.check(chosen)
    return chosen


def require_accumulation(passes: int) -> None:
    """Raise where this backend does not add up the gradients of several backward passes.

    Raises:
        InvalidInput: a step is a function of its state, which is the Keras optimizer's.
    """
    if passes > 1 and ops.is_functional():
        raise InvalidInput(
            f"On {BACKEND} the Keras optimizer adds up the gradients of several backward passes.",
            f"backward_passes_per_step={passes}",
            f"Pass gradient_accumulation_steps={passes} to the Keras optimizer: it takes their mean.",
        )


def variables_of(layers: Any) -> list[Any]:
    """Return the trainable variables of a Keras layer, of several, or of none.

    Raises:
        InvalidInput: something else is among them, or a layer has no variables yet.
    """
    several = [] if layers is None else list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    for layer in several:
        if not isinstance(layer, keras.layers.Layer) or not layer.built:
            raise InvalidInput(
                "local_layers must be Keras layers that have their variables.",
                repr(layer),
                "Pass layers of a built model, e.g. local_layers=[model.layers[0]].",
            )
    return [variable for layer in several for variable in layer.trainable_weights]
