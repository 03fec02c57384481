"""Walks down a pipeline to take one shard of it: finds what goes below the shard, and what must stay above.

Runs on: every rank.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from jupyter_ddl.pipelines.lineage import Recipe, recipe_of
from jupyter_ddl.pipelines.properties import are_names, file_names, is_batched, plain
from jupyter_ddl.pipelines.shard_rules import BATCHING, RANDOM_ORDER, READERS, WAYS, Way

if TYPE_CHECKING:
    from collections.abc import Callable

# Operations above the shard that a plan names: those that cost time or memory.
_NAMED = ("shuffle", "map", "filter", "cache", "snapshot")
_KEEPS_COUNT = {name for name, way in WAYS.items() if way is Way.EXACTLY} | {"shuffle", "assert_cardinality"}
NOT_TAKEN_APART = ": it could not be taken apart"
_OWN_FILE = {"cache": "filename", "snapshot": "path"}


class Sharding:
    """Takes one shard of a pipeline, and notes where.

    Each dataset of a pipeline is made again in up to three forms, each once however often the pipeline uses it:
    a part (together with the other ranks' parts it holds the whole, in any order and grouping), an exact part (the
    elements index, index + num_shards, ...: what `Dataset.shard` gives, so that datasets can be zipped), and the whole
    (the same on all ranks).

    Attributes:
        needs_like_order: below the shard the order is random or not known.
        unseeded: operations below the shard that draw an order without a seed of their own.
    """

    def __init__(
        self,
        num_shards: int,
        index: int,
        *,
        may_come_in_any_order: bool,
        watch: Callable[[Any], Any] = lambda source: source,
    ) -> None:
        """Take one shard.

        Args:
            num_shards: the number of shards.
            index: this rank's.
            may_come_in_any_order: the pipeline's options let parallel operations return elements out of order.
            watch: called with each sharded source, which must be alike on all ranks; returns its replacement.
        """
        self.needs_like_order = False
        self.unseeded: list[str] = []
        self._num_shards = num_shards
        self._index = index
        self._any_order = may_come_in_any_order
        self._watch = watch
        self._made: dict[tuple[int, str, int], Any] = {}
        self._places: list[str] = []
        self._passed: list[str] = []
        self._remark = ""
        # How many operations that take file names, and that make batches, are above the current one.
        self._reading = 0
        self._batching = 0

    def how(self) -> str:
        """Return where the shard was taken, in words."""
        named = list(dict.fromkeys(name for name in self._passed if name in _NAMED))
        places = list(dict.fromkeys(self._places))
        if len(places) > 1:
            # For several sources it is enough to say how each is dealt out.
            places = list(dict.fromkeys(place.partition(", after ")[0] for place in places))
        if named and not any(place.startswith("by file") for place in places):
            *first, last = named
            places[-1] += f", before {', '.join(first)} and {last}" if first else f", before {last}"
        return " and ".join(places) + self._remark

    # --- the three readings --------------------------------------------------------------------------------------

    def part(self, dataset: Any, index: int) -> Any:
        """Return shard `index` of a dataset, in any order and grouping."""
        return self._once(dataset, "part", index, self._part)

    def _exact(self, dataset: Any, index: int) -> Any:
        return self._once(dataset, "exact", index, self._exact_part)

    def _whole(self, dataset: Any) -> Any:
        return self._once(dataset, "whole", self._index, self._again)

    def _once(self, dataset: Any, reading: str, index: int, make: Any) -> Any:
        key = (id(dataset), reading, index)
        if key not in self._made:
            # With the dataset itself, whose id may be reused once it is gone.
            self._made[key] = dataset, make(dataset, recipe_of(dataset), index)
        return self._made[key][1]

    def _part(self, dataset: Any, recipe: Recipe | None, index: int) -> Any:
        if recipe is None or not self._passes_through(recipe):
            return self._here(dataset, index)
        special = {
            "list_files": self._part_of_files,
            "concatenate": self._part_of_two,
            "assert_cardinality": self._part_of_asserted,
        }
        if recipe.name in special:
            return special[recipe.name](recipe, index)
        if recipe.name in READERS:
            return self._part_of_reader(recipe, index)
        if recipe.name == "zip":
            return self._above(recipe, [self._exact(each, index) for each in recipe.inputs], index)
        self._reading += self._takes_names(recipe)
        self._batching += recipe.name in BATCHING
        inputs = [self.part(each, index) for each in recipe.inputs]
        self._batching -= recipe.name in BATCHING
        self._reading -= self._takes_names(recipe)
        return self._above(recipe, inputs, index)

    def _exact_part(self, dataset: Any, recipe: Recipe | None, index: int) -> Any:
        if recipe is not None:
            if WAYS.get(recipe.name) is Way.EXACTLY:
                inputs = [self._exact(each, index) for each in recipe.inputs]
                return self._above(recipe, inputs, index, **self._in_order(recipe))
            if recipe.name == "assert_cardinality":
                return self._asserted(recipe, self._exact(recipe.inputs[0], index), index)
        return self._here(dataset, index)

    def _again(self, dataset: Any, recipe: Recipe | None, index: int) -> Any:
        """Return the whole: made again where ranks could differ in it, or would write to one file."""
        if recipe is None or recipe.name == "from_generator":
            self.needs_like_order = True
            return dataset
        changes = {**self._own_file(recipe, index), **self._in_order(recipe)}
        if self._is_random(recipe):
            self.needs_like_order = True
            if recipe.argument("seed") is None:
                self.unseeded.append(recipe.name)
        inputs = [self._whole(each) for each in recipe.inputs]
        same = all(new is old for new, old in zip(inputs, recipe.inputs, strict=True))
        if same and not changes and not self._is_random(recipe):
            return dataset
        return recipe.made_of(inputs, **changes)

    # --- what passes ---------------------------------------------------------------------------------------------

    def _passes_through(self, recipe: Recipe) -> bool:
        """Return whether the shard goes below what made the dataset."""
        if recipe.name == "sample_from_datasets":
            return _mixes_without_end(recipe)
        names = file_names(recipe)
        if names is not None:
            return self._is_enough(len(names))
        way = Way.FANS_OUT if recipe.name in READERS else WAYS.get(recipe.name, Way.LOOSELY)
        if way is Way.FANS_OUT:
            things = self._things(recipe.inputs[0])
            if things is None:
                return are_names(recipe.inputs[0]) or is_batched(recipe.inputs[0])
            return self._is_enough(things)
        if way is Way.REPEATS:
            things = self._things(recipe.inputs[0])
            return things is None or self._is_enough(things)
        return way in (Way.EXACTLY, Way.LOOSELY)

    def _is_enough(self, things: int) -> bool:
        return things >= self._num_shards

    def _things(self, dataset: Any) -> int | None:
        """Return how many items a shard of the dataset would deal out; None where that is not known."""
        recipe = recipe_of(dataset)
        if recipe is not None and (WAYS.get(recipe.name) is Way.REPEATS or self._passes_through(recipe)):
            names = file_names(recipe)
            if names is not None:
                return len(names)
            if len(recipe.inputs) == 1:
                return self._things(recipe.inputs[0])
        count = int(dataset.cardinality())
        return count if count >= 0 else None

    # --- operations of their own kind ----------------------------------------------------------------------------

    def _part_of_files(self, recipe: Recipe, index: int) -> Any:
        """`list_files` shuffles what it finds, by default: the shard is taken of the files in their own order."""
        shuffles = recipe.argument("shuffle")
        part = self._here(recipe.made_of((), shuffle=False), index)
        if shuffles is None or shuffles:
            part = part.shuffle(max(int(part.cardinality()), 1), seed=recipe.argument("seed"))
        return part

    def _part_of_two(self, recipe: Recipe, index: int) -> Any:
        """The second is dealt out from where the first ended, so that no rank gets the odd element of both."""
        first, second = recipe.inputs
        before = max(int(first.cardinality()), 0)
        parts = [self.part(first, index), self.part(second, (index - before) % self._num_shards)]
        return self._above(recipe, parts, index)

    def _part_of_asserted(self, recipe: Recipe, index: int) -> Any:
        passed, places = len(self._passed), len(self._places)
        part = self.part(recipe.inputs[0], index)
        by_file = any(place.startswith("by file") for place in self._places[places:])
        if by_file or not _KEEPS_COUNT.issuperset(self._passed[passed:]):
            # How many elements a part has is not known before they are read.
            return part
        return self._asserted(recipe, part, index)

    def _asserted(self, recipe: Recipe, part: Any, index: int) -> Any:
        expected = int(recipe.argument("expected_cardinality"))
        own = len(range(index, expected, self._num_shards)) if expected >= 0 else expected
        return recipe.made_of([part], expected_cardinality=own)

    def _part_of_reader(self, recipe: Recipe, index: int) -> Any:
        names = file_names(recipe)
        if names is None:
            self._reading += 1
            inputs = [self.part(each, index) for each in recipe.inputs]
            self._reading -= 1
            return self._above(recipe, inputs, index)
        # By the order of the names: one host may list a folder in another order than the next.
        ranked = sorted(range(len(names)), key=names.__getitem__)
        self._watch(tf.data.Dataset.from_tensor_slices([names[place] for place in ranked]))
        own = sorted(ranked[index :: self._num_shards])
        self._places.append(self._by_file(len(names)))
        return recipe.made_of((), filenames=[names[place] for place in own])

    def _by_file(self, files: int) -> str:
        fewest, left = divmod(files, self._num_shards)
        uneven = f", {fewest} or {fewest + 1} a rank" if left else ""
        return f"by file ({files:,} files{uneven})"

    # --- making --------------------------------------------------------------------------------------------------

    def _here(self, dataset: Any, index: int) -> Any:
        """Take the shard of this dataset."""
        self._places.append(self._described(dataset))
        return self._watch(self._whole(dataset)).shard(self._num_shards, index)

    def _described(self, dataset: Any) -> str:
        recipe = recipe_of(dataset)
        count = int(dataset.cardinality())
        if self._reading and are_names(dataset):
            return self._by_file(count) if count >= 0 else "by file"
        if recipe is None and not self._batching:
            self._remark = NOT_TAKEN_APART
            return "by batch"
        after = f", after {recipe.name}" if recipe is not None and recipe.inputs else ""
        return f"by {'batch' if is_batched(dataset) else 'element'}{after}"

    def _above(self, recipe: Recipe, inputs: list[Any], index: int, **changes: Any) -> Any:
        self._passed.append(recipe.name)
        return recipe.made_of(inputs, **self._own_file(recipe, index), **changes)

    def _own_file(self, recipe: Recipe, index: int) -> dict[str, Any]:
        """Return the argument that gives this rank a file of its own, where the operation writes one."""
        parameter = _OWN_FILE.get(recipe.name)
        given = parameter and plain(recipe.argument(parameter))
        if not parameter or not given:
            return {}
        name = os.fsdecode(given)
        # A rank may hold another's part of the second of two concatenated datasets.
        part = "" if index == self._index else f"-part-{index}"
        return {parameter: f"{name}-{self._index}-of-{self._num_shards}{part}"}

    def _in_order(self, recipe: Recipe) -> dict[str, Any]:
        """Return the argument that keeps a parallel operation's order, where the pipeline does not ask for order."""
        takes = "deterministic" in recipe.signature.parameters and recipe.argument("num_parallel_calls") is not None
        asked = recipe.argument("deterministic") if takes else True
        loose = asked is False or (asked is None and self._any_order)
        return {"deterministic": True} if loose else {}

    def _takes_names(self, recipe: Recipe) -> bool:
        return WAYS.get(recipe.name) is Way.FANS_OUT and are_names(recipe.inputs[0])

    @staticmethod
    def _is_random(recipe: Recipe) -> bool:
        if recipe.name == "list_files":
            return recipe.argument("shuffle") in (None, True)
        return recipe.name in RANDOM_ORDER


def _mixes_without_end(recipe: Recipe) -> bool:
    """Return whether a mixture of datasets lasts until all have ended: then a mixture of their parts does too."""
    weights = recipe.argument("weights")
    endless = all(int(each.cardinality()) == tf.data.INFINITE_CARDINALITY for each in recipe.inputs)
    return not isinstance(weights, tf.data.Dataset) and (endless or not recipe.argument("stop_on_empty_dataset"))
