"""Compares the sources of the ranks' tf.data pipelines, before each rank takes its shard.

Runs on: every rank.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from jupyter_ddl.auto_distribution.same_data import Part, parts_of
from jupyter_ddl.auto_distribution.shards.batch_agreement import BatchAgreement
from jupyter_ddl.auto_distribution.shards.noted_datasets import noting
from jupyter_ddl.pipelines.lineage import recipe_of

# How many elements of a source are compared, evenly spread where they can be read by number.
_LOOKS = 16


class Sources:
    """The datasets from which shards are taken.

    Attributes:
        parts: what identifies the sources that can be read at once: tensors, lists of files.
    """

    def __init__(self) -> None:
        self.parts: tuple[Part, ...] = ()
        self._noted: list[BatchAgreement] = []

    def watch(self, source: Any) -> Any:
        """Return a replacement of a source. Tensors and files are read now; of others, the first element is noted.

        A generator, or the output of an operation, is not run for this: it may not give the same elements again.
        """
        recipe = recipe_of(source)
        if recipe is not None and not recipe.inputs and recipe.name != "from_generator":
            self.parts = (*self.parts, *_known(source, recipe.name))
            return source
        noted = BatchAgreement()
        self._noted.append(noted)
        return noting(noted, source, once=True)

    def require_same(self) -> None:
        """Raise where the ranks' first elements differ.

        Collective: every rank must call this.

        Raises:
            InvalidInput: they do; on every rank.
        """
        for noted in self._noted:
            noted.require_same("first elements")


def _known(source: Any, name: str) -> tuple[Part, ...]:
    """Return what identifies a source: how many elements it has, and some of them."""
    count = int(source.cardinality())
    size = Part("the dataset's source", f"{count:,} elements" if count >= 0 else "elements without end")
    if name == "from_tensor_slices":
        places = sorted({i * (count - 1) // (_LOOKS - 1) for i in range(_LOOKS)}) if count else []
        # By number: skipping the ones before would copy them.
        elements = {place: tf.data.experimental.at(source, place) for place in places}
    else:
        elements = dict(enumerate(source.take(_LOOKS)))
    return size, *parts_of(**{f"element {place} of the dataset": element for place, element in elements.items()})
