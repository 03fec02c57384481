"""Decides which gradients are sent together, and under which names.

Runs on: every rank.
"""

from __future__ import annotations

import math
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd, ops

if TYPE_CHECKING:
    from collections.abc import Sequence

MUCH_BYTES = 16 * 2**20
GROUP_BYTES = 25 * 2**20

# As in Horovod's signature: None for our own choice, a number of groups, or lists of variables.
Groups: TypeAlias = "int | Sequence[Sequence[Any]] | None"


def split(gradients: Sequence[Any], variables: Sequence[Any], groups: Groups) -> dict[str, list[int]]:
    """Return name -> positions of the gradients that are sent together; a gradient that is None is in none.

    Ranks find each other's tensors by name. By default Horovod takes the name of a tensor, which holds Keras's
    automatic layer names ("dense_7"): a rank that has made one model more would then wait for ever. So the names come
    from here, and hold the positions: a rank that lacks a gradient which another has waits, and is reported, rather
    than get another variable's.

    Args:
        gradients: tensors, tf.IndexedSlices or None.
        variables: what they are gradients of.
        groups: None: as `chosen_by_size` finds best. A number: that many groups of about the same count. Lists of
            variables: each list together, and each variable that is in none by itself.
    """
    return {
        _name(kind, positions): positions
        for members in _chosen(variables, groups)
        for kind, positions in _by_kind(gradients, members).items()
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


def _chosen(variables: Sequence[Any], groups: Groups) -> list[list[int]]:
    count = len(variables)
    if groups is None:
        return chosen_by_size([_bytes(variable) for variable in variables])
    if isinstance(groups, int):
        wanted = max(1, min(groups, count))
        size, more = divmod(count, wanted)
        ends = [size * (i + 1) + min(i + 1, more) for i in range(wanted)]
        return [list(range(start, end)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]
    group_of = {id(variable): i for i, group in enumerate(groups) for variable in group}
    chosen: dict[Any, list[int]] = {}
    for i, variable in enumerate(variables):
        chosen.setdefault(group_of.get(id(variable), ("alone", i)), []).append(i)
    return list(chosen.values())


def chosen_by_size(sizes_bytes: Sequence[int]) -> list[list[int]]:
    """Return the positions that are sent together by default.

    Each by itself, so that it is sent as soon as the backward pass has made it. Where the ranks compute on cores and
    there is much to send, in groups: no core is free to send meanwhile, and fewer operations cost less. Measured on two
    cores: docs/performance.md. PyTorch exchanges when the whole backward pass has ended: always in groups.
    """
    if not ops.exchanges_in_one() and (hvd.nccl_built() or sum(sizes_bytes) <= MUCH_BYTES):
        return [[i] for i in range(len(sizes_bytes))]
    chosen: list[list[int]] = [[]]
    filled_bytes = 0
    for i, size in enumerate(sizes_bytes):
        if chosen[-1] and filled_bytes + size > GROUP_BYTES:
            chosen.append([])
            filled_bytes = 0
        chosen[-1].append(i)
        filled_bytes += size
    return chosen


def _bytes(variable: Any) -> int:
    size_bytes: int = math.prod(variable.shape) * ops.itemsize(variable)
    return size_bytes


def _by_kind(gradients: Sequence[Any], members: list[int]) -> dict[str, list[int]]:
    """Split a group once more: an operation of Horovod's takes one dtype, and slices have one of their own."""
    kinds: dict[str, list[int]] = {}
    for i in members:
        gradient = gradients[i]
        if gradient is not None:
            kinds.setdefault(ops.kind_of(gradient), []).append(i)
    return kinds


def _name(kind: str, positions: list[int]) -> str:
    if len(positions) == 1:
        return f"{kind}_{positions[0]}"
    return f"{kind}_{positions[0]}_to_{positions[-1]}_{zlib.crc32(repr(positions).encode()):08x}"
