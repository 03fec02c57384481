"""Which gradients travel together, and under which names.

Runs on: every rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import tensorflow as tf

from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

# As in Horovod's signature: None for our default, a number of groups, or lists of variables.
Groups: TypeAlias = "int | Sequence[Sequence[Any]] | None"


def split(gradients: Sequence[Any], variables: Sequence[Any], groups: Groups) -> dict[str, list[int]]:
    """Return name -> positions of the gradients that travel together; a gradient that is None is in none.

    Ranks find each other's tensors by name. Left to itself Horovod takes the name of a tensor, which holds Keras's
    automatic layer names ("dense_7"): a rank that has made one model more would then wait for ever. So the names come
    from here. TensorFlow makes them unique within the step.

    Args:
        gradients: tensors, tf.IndexedSlices or None.
        variables: what they are gradients of.
        groups: None: all of one kind and dtype together. A number: so many groups of about the same count. Lists of
            variables: each list together, and each variable that is in none by itself.
    """
    return {
        name: positions
        for i, members in enumerate(_chosen(gradients, variables, groups))
        for name, positions in _by_kind(gradients, members, i).items()
    }


def check(groups: Any) -> None:
    """Raise unless `groups` is a number above 0, lists of variables, or None.

    Raises:
        InvalidInput: it is something else.
    """
    is_number = isinstance(groups, int) and not isinstance(groups, bool) and groups > 0
    is_lists = isinstance(groups, (list, tuple)) and all(isinstance(group, (list, tuple)) for group in groups)
    if groups is not None and not is_number and not is_lists:
        raise InvalidInput(
            "groups must be a number of groups above 0, or lists of variables.",
            repr(groups),
            "Pass e.g. groups=2, or groups=[model.layers[0].weights, model.layers[1].weights].",
        )


def _chosen(gradients: Sequence[Any], variables: Sequence[Any], groups: Groups) -> list[list[int]]:
    present = [i for i, gradient in enumerate(gradients) if gradient is not None]
    if groups is None:
        return [present]
    if isinstance(groups, int):
        count = max(1, min(groups, len(present)))
        size, more = divmod(len(present), count)
        ends = [size * (i + 1) + min(i + 1, more) for i in range(count)]
        return [present[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    group_of = {id(variable): i for i, group in enumerate(groups) for variable in group}
    chosen: dict[Any, list[int]] = {}
    for i in present:
        chosen.setdefault(group_of.get(id(variables[i]), ("alone", i)), []).append(i)
    return list(chosen.values())


def _by_kind(gradients: Sequence[Any], members: list[int], group: int) -> dict[str, list[int]]:
    """Split a group once more: an operation of Horovod's takes one dtype, and slices have one of their own."""
    kinds: dict[str, list[int]] = {}
    for i in members:
        gradient = gradients[i]
        if isinstance(gradient, tf.IndexedSlices):
            kind = f"slices_{gradient.dtype.name}_{gradient.indices.dtype.name}"
        else:
            kind = f"gradients_{gradient.dtype.name}"
        kinds.setdefault(f"{kind}_{group}", []).append(i)
    return kinds
