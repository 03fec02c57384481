"""Compares what the ranks' PyDatasets hold: lists of samples, the order of their numbers, vocabularies, arrays.

Runs on: every rank.
"""

from __future__ import annotations

import zlib
from pathlib import PurePath
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from jupyter_ddl.auto_distribution.same_data import Part, are_alike, parts_of
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd

# At most this many items of a list are read.
_ITEMS = 20_000
# Attributes that `__getitem__` of a PyDataset changes, such as a list of what it has read, are each rank's own.
_changed_by_batches: WeakKeyDictionary[Any, set[str]] = WeakKeyDictionary()


class Contents:
    """The attributes of a PyDataset that say which samples are in which batch, compared among the ranks.

    Args:
        owner: the PyDataset.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner
        self._noted = _known(owner)

    def before_shuffle(self) -> None:
        """Note what the batches have changed since, which is not compared."""
        now = _known(self._owner)
        changed = {name for name in now.keys() | self._noted.keys() if now.get(name) != self._noted.get(name)}
        _changed_by_batches.setdefault(self._owner, set()).update(changed)

    def after_shuffle(self) -> None:
        """Note what there is now."""
        self._noted = _known(self._owner)

    def require_same(self) -> None:
        """Raise where the ranks noted different contents.

        Collective: every rank must call this.

        Raises:
            InvalidInput: they did; on every rank.
        """
        mine = (self._noted, _changed_by_batches.get(self._owner, set()))
        everyone = hvd.allgather_object(mine, name="contents_of_a_dataset")
        left_out = set().union(*(changed for _, changed in everyone))
        kept = [{name: value for name, value in noted.items() if name not in left_out} for noted, _ in everyone]
        first = kept[0]
        names = sorted(
            name
            for name in set().union(*kept)
            if not all(are_alike(first.get(name, ()), noted.get(name, ())) for noted in kept)
        )
        if names:
            raise InvalidInput(
                "With --auto all ranks have the same keras.utils.PyDataset, and each takes its batches.",
                f"a {type(self._owner).__name__} that differs between the ranks in {' and '.join(names)}",
                "Give what shuffles or splits it a seed: np.random.default_rng(1) in place of default_rng(), or "
                "keras.utils.set_random_seed(1) before it is made; order words by sorted(words), not by set(words).",
            )


def _known(owner: Any) -> dict[str, tuple[Part, ...]]:
    """Return what identifies each attribute that may order samples."""
    found = {name: _parts_of_value(value) for name, value in vars(owner).items() if not name.startswith("__")}
    return {name: parts for name, parts in found.items() if parts}


def _parts_of_value(value: Any) -> tuple[Part, ...]:
    """Return what identifies an array, a frame, or a list, range or dict of plain values; nothing for anything else.

    A list of fractions is a record of times or losses, and orders nothing.
    """
    if isinstance(value, dict):
        value = sorted(value.items(), key=repr)
    if hasattr(value, "shape") and len(value.shape):
        return parts_of(value=value)
    if not isinstance(value, (list, tuple, range)) or not len(value):
        return ()
    step = max(len(value) // _ITEMS, 1)
    items = [*value[: _ITEMS // 2], *value[::step]]
    if all(_is_plain(item) for item in items):
        return (Part("value", str(len(value)), zlib.crc32(repr(items).encode())),)
    if all(hasattr(item, "shape") for item in items):
        return parts_of(value=[items[0], items[len(items) // 2], items[-1]])
    return ()


def _is_plain(item: Any) -> bool:
    if isinstance(item, (list, tuple)):
        return all(_is_plain(each) or isinstance(each, float) for each in item)
    return isinstance(item, (str, bytes, int, np.integer, PurePath))
