"""Reads properties of a dataset without running it.

Runs on: every rank.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import tensorflow as tf

from jupyter_ddl.pipelines.lineage import Recipe, recipe_of
from jupyter_ddl.pipelines.shard_rules import BATCHING, READERS

COMPARED = 16
"""Elements, to see whether two passes give the same."""


def file_names(recipe: Recipe) -> list[Any] | None:
    """Return the names that a reader of files was given; None for a dataset of them, and for what is no reader."""
    if recipe.name not in READERS or recipe.inputs:
        return None
    names = tf.nest.map_structure(plain, recipe.argument("filenames"))
    flat: list[Any] = tf.reshape(tf.convert_to_tensor(names), [-1]).numpy().tolist()
    return flat


def plain(name: Any) -> Any:
    """Return the name of a file as str or bytes; anything else unchanged."""
    if isinstance(name, tf.Tensor):
        return name.numpy()
    return os.fspath(name) if isinstance(name, os.PathLike) else name


def are_names(dataset: Any) -> bool:
    """Return whether the elements can be names of files: each one string."""
    spec = dataset.element_spec
    return isinstance(spec, tf.TensorSpec) and spec.dtype == tf.string and spec.shape.rank == 0


def is_batched(dataset: Any) -> bool:
    """Return whether the elements are known to be batches."""
    recipe = recipe_of(dataset)
    while recipe is not None and recipe.name not in BATCHING and recipe.name != "unbatch" and recipe.inputs:
        recipe = recipe_of(recipe.inputs[0])
    return recipe is not None and recipe.name in BATCHING


def line(dataset: Any) -> tuple[Any, list[Recipe]]:
    """Return where a dataset starts, or where datasets are joined in it, and the operations from there, in order."""
    operations = []
    recipe = recipe_of(dataset)
    while recipe is not None and len(recipe.inputs) == 1:
        operations.append(recipe)
        dataset = recipe.inputs[0]
        recipe = recipe_of(dataset)
    return dataset, operations[::-1]


def are_same(first: Any, second: Any) -> bool:
    """Return whether two structures of tensors are alike, to the rounding of float32."""
    ours, theirs = tf.nest.flatten(first), tf.nest.flatten(second)
    if len(ours) != len(theirs) or not all(isinstance(each, tf.Tensor) for each in (*ours, *theirs)):
        return False
    return all(
        one.dtype == other.dtype and one.shape == other.shape and _are_close(one.numpy(), other.numpy())
        for one, other in zip(ours, theirs, strict=True)
    )


def _are_close(one: Any, other: Any) -> bool:
    if np.issubdtype(np.asarray(one).dtype, np.inexact):
        return bool(np.allclose(one, other, rtol=1e-5, atol=1e-6))
    return bool(np.array_equal(one, other))


def batch_size_of(dataset: Any, element: Any) -> int:
    """Return how many samples an element of a dataset holds: 1, where it is not known to be a batch."""
    return int(tf.nest.flatten(element)[0].shape[0]) if is_batched(dataset) else 1


def batches_until_cached(dataset: Any, batch_size: int) -> int:
    """Return how many batches fill the caches of a pipeline; runs it up to a cache that does not know its size."""
    recipe = recipe_of(dataset)
    if recipe is None:
        return 0
    if recipe.name not in ("cache", "snapshot"):
        return max((batches_until_cached(each, batch_size) for each in recipe.inputs), default=0)
    count = int(dataset.cardinality())
    elements = count if count >= 0 else sum(1 for _ in dataset)
    return elements if is_batched(dataset) else -(-elements // batch_size)
