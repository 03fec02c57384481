"""Finds where in a pipeline a cache belongs: above all that is slow and the same in each epoch, below what is not.

Runs on: every rank.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import tensorflow as tf

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.pipelines.cache import RAM, kept_in, measured, ranks_of_this_host, room
from jupyter_ddl.pipelines.lineage import Recipe, recipe_of
from jupyter_ddl.pipelines.properties import COMPARED, are_same, line
from jupyter_ddl.pipelines.shard_rules import BATCHING, RANDOM_ORDER, READERS
from jupyter_ddl.pipelines.storage import NVME, RAMDISK
from jupyter_ddl.pipelines.trials import Change
from jupyter_ddl.protocol.number_texts import size

# These take no time in each epoch: data in memory and their order.
_COSTS = {"map", "filter", "flat_map", "interleave", "unbatch", "from_generator", "load", *READERS}


def possible(dataset: Any) -> list[Change]:
    """Return a cache that may make a pipeline faster; none where nothing is slow before it, or there is no room."""
    steady, _ = _steady(dataset)
    if steady is None or int(steady.cardinality()) == tf.data.INFINITE_CARDINALITY:
        return []
    recipe, estimate = recipe_of(steady), measured(steady)
    whole = estimate.total_bytes
    told = f"{size(estimate.element_bytes)} an element" if whole is None else size(whole)
    needed_bytes = (whole or 0) * ranks_of_this_host()[0]
    after = "the source" if recipe is None else _named(recipe)
    for where in (RAM, RAMDISK, NVME):
        try:
            room(where, needed_bytes)
        except InvalidInput:
            continue
        name = f"cache in {'memory' if where == RAM else where} ({told})"
        return [
            Change(name, f'jupyter_ddl.data.cache(..., "{where}") after {after}', partial(_cached, where, needed_bytes))
        ]
    return []


def _cached(where: str, needed_bytes: int, dataset: Any, elements: int | None) -> Any:
    """Return a pipeline, perhaps changed otherwise meanwhile, with its cache, of all elements or of that number."""
    steady, above = _steady(dataset)
    if steady is None:
        return dataset
    cached = kept_in(steady if elements is None else steady.take(elements), room(where, needed_bytes))
    return _made(cached, above)


def _steady(dataset: Any) -> tuple[Any, list[Recipe]]:
    """Return the part of a pipeline that gives the same in each epoch, and the operations above it, in order.

    A map above `shuffle` or `repeat` counts as below it: the samples are the same. None in place of the part, where it
    is cached already or is nothing but data in memory.
    """
    start, operations = line(dataset)
    names = [recipe.name for recipe in operations]
    if "cache" in names or "snapshot" in names or _draws_an_order(start, may_list_files="shuffle" in names):
        return None, operations
    ends = {"shuffle", "repeat", *RANDOM_ORDER, *(BATCHING if "shuffle" in names else ())}
    below: list[Recipe] = []
    above: list[Recipe] = []
    for each in operations:
        passes = each.name == "map" and all(higher.name in ("shuffle", "repeat") for higher in above)
        (below if passes or (not above and each.name not in ends) else above).append(each)
    # Random augmentation is not the same twice.
    while below and not (
        _is_same_twice(_made(start, below)) and ("shuffle" not in names or _is_same_in_any_order(start, below))
    ):
        below.pop()
    # In their order: what is random by position must stay above `shuffle`.
    above = [each for each in operations if not any(each is other for other in below)]
    source = recipe_of(start)
    costs = {source.name if source is not None else "load", *(each.name for each in below)} & _COSTS
    return (_made(start, below), above) if costs else (None, operations)


def _named(recipe: Recipe) -> str:
    """Return an operation as its author knows it: one of several maps by its function."""
    function = getattr(recipe.arguments.get("map_func"), "__name__", "")
    return f"{recipe.name}({function.strip('<>')})" if function else recipe.name


def _made(start: Any, operations: list[Recipe]) -> Any:
    dataset = start
    for each in operations:
        dataset = each.made_of([dataset])
    return dataset


def _is_same_twice(dataset: Any) -> bool:
    some = dataset.take(COMPARED)
    return are_same(list(some), list(some))


def _is_same_in_any_order(start: Any, operations: list[Recipe]) -> bool:
    """Return whether the results of maps do not depend on an element's position.

    With a seed, random augmentation is the same in each pass by position, and not by element, whose position `shuffle`
    changes in each epoch.
    """
    for number, each in enumerate(operations):
        if each.name == "map":
            dataset = _made(start, operations[:number])
            in_place = list(each.made_of([dataset]).take(COMPARED))
            one_earlier = list(each.made_of([dataset.skip(1)]).take(COMPARED - 1))
            if not are_same(in_place[1:], one_earlier):
                return False
    return True


def _draws_an_order(dataset: Any, *, may_list_files: bool) -> bool:
    recipe = recipe_of(dataset)
    if recipe is None:
        return False
    if recipe.name in RANDOM_ORDER and not (recipe.name == "list_files" and may_list_files):
        return True
    return any(_draws_an_order(each, may_list_files=may_list_files) for each in recipe.inputs)
