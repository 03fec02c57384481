"""Lists changes that may make a pipeline faster and keep its samples the same, each made from the recipe.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from jupyter_ddl.pipelines import cache_placement
from jupyter_ddl.pipelines.lineage import Recipe, rebuilt, recipe_of
from jupyter_ddl.pipelines.prefetch import prefetch
from jupyter_ddl.pipelines.properties import COMPARED, are_names, are_same
from jupyter_ddl.pipelines.shard_rules import READERS
from jupyter_ddl.pipelines.trials import Change

# Operations with which a map may be exchanged: they do not change elements.
_LEAVES_ELEMENTS = ("shuffle", "repeat", "prefetch", "with_options")


def possible(dataset: Any) -> list[Change]:
    """Return the changes that are possible in this pipeline. Makes a few of its elements."""
    parallel_reads = Change(
        "files in parallel",
        "num_parallel_reads=tf.data.AUTOTUNE, or interleave(..., num_parallel_calls=tf.data.AUTOTUNE)",
        lambda ds, _: rebuilt(ds, _files_in_parallel),
    )
    parallel_map = Change(
        "map in parallel", "map(..., num_parallel_calls=tf.data.AUTOTUNE)", lambda ds, _: rebuilt(ds, _map_in_parallel)
    )
    vectorised = Change(
        "vectorised map", "batch before map: the function takes whole batches", lambda ds, _: rebuilt(ds, _batch_first)
    )
    ahead = Change("prefetch", "prefetch(tf.data.AUTOTUNE) at the end", lambda ds, _: prefetch(ds))
    changes = [
        change for change in (parallel_reads, parallel_map, vectorised) if change.make(dataset, None) is not dataset
    ]
    return [*changes, *cache_placement.possible(dataset), *([] if prefetch(dataset) is dataset else [ahead])]


# --- in parallel -------------------------------------------------------------------------------------------------


def _map_in_parallel(recipe: Recipe, old: Any, inputs: tuple[Any, ...]) -> Any:
    if recipe.name == "map" and recipe.argument("num_parallel_calls") is None:
        return recipe.made_of(inputs, num_parallel_calls=tf.data.AUTOTUNE)
    return _again(recipe, old, inputs)


def _files_in_parallel(recipe: Recipe, old: Any, inputs: tuple[Any, ...]) -> Any:
    if recipe.name in READERS:
        if recipe.argument("num_parallel_reads") is None:
            return recipe.made_of(inputs, num_parallel_reads=tf.data.AUTOTUNE)
    elif recipe.name == "interleave" and recipe.argument("num_parallel_calls") is None:
        return recipe.made_of(inputs, num_parallel_calls=tf.data.AUTOTUNE)
    elif recipe.name == "flat_map" and are_names(inputs[0]):
        return inputs[0].interleave(recipe.argument("map_func"), num_parallel_calls=tf.data.AUTOTUNE)
    return _again(recipe, old, inputs)


def _again(recipe: Recipe, old: Any, inputs: tuple[Any, ...]) -> Any:
    """Return the dataset made of its new inputs; the dataset itself if they are the old ones."""
    same = all(new is before for new, before in zip(inputs, recipe.inputs, strict=True))
    return old if same else recipe.made_of(inputs)


# --- batch before map --------------------------------------------------------------------------------------------


def _batch_first(recipe: Recipe, old: Any, inputs: tuple[Any, ...]) -> Any:
    if recipe.name != "batch":
        return _again(recipe, old, inputs)
    between: list[Recipe] = []
    below = recipe_of(inputs[0])
    while below is not None and below.name in _LEAVES_ELEMENTS:
        between.append(below)
        below = recipe_of(below.inputs[0])
    if below is None or below.name != "map" or not _takes_batches(below):
        return _again(recipe, old, inputs)
    dataset = below.inputs[0]
    for each in reversed(between):
        dataset = each.made_of([dataset])
    # The map below that one may take batches too.
    return below.made_of([_batch_first(recipe, None, (dataset,))])


def _takes_batches(mapping: Recipe) -> bool:
    """Return whether a map's function returns the same for a batch as for its elements one by one."""
    for sample in mapping.inputs[0].batch(COMPARED).take(1):
        elements = tf.data.Dataset.from_tensor_slices(sample)
        one_by_one = mapping.made_of([elements]).batch(COMPARED)
        try:
            at_once = list(mapping.made_of([elements.batch(COMPARED)]))
        except Exception:  # noqa: BLE001 (the user's function, on what it was not written for: it may raise anything)
            return False
        return are_same(list(one_by_one), at_once)
    return False
