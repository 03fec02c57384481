"""Deals out the batches of a Python generator to the ranks.

Runs on: every rank.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from jupyter_ddl.auto_distribution.same_data import are_alike, parts_of
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.auto_distribution.same_data import Part
    from jupyter_ddl.auto_distribution.shards.shard_bounds import Place

# Compared of each array of a batch.
_READ_BYTES = 2**16
# All of the first rounds are noted, and then one in 64: there may be millions.
_ALL_OF_FIRST, _LATER = 256, 64


def bounded(whole: Any, steps: int | None) -> None:
    """Limit a pass over a generator to `steps` batches, so that it takes none that it does not use.

    Keras reads ahead as far as time allows, and what was read is lost with the pass. Each rank would then begin its
    next pass at a different batch.

    Args:
        whole: Keras's adapter of the generator, which is changed.
        steps: the batches of a pass; None for all.
    """
    if steps is None:
        return
    read: Callable[[], Iterator[Any]] = whole.generator
    whole.generator = lambda: itertools.islice(read(), steps)


class Rounds:
    """Deals out a generator's batches in rounds: one batch to each rank.

    Every rank runs the generator, and notes the first batch of each round, which all of them see.

    Args:
        source: the generator of one process.
        place: whose batches are taken.
    """

    def __init__(self, source: Iterator[Any], place: Place) -> None:
        self._source = source
        self._place = place
        # Appended to by a thread of tf.data, which reads ahead: items are removed at the front only.
        self._noted: list[tuple[Part, ...]] = []

    def batches(self) -> Iterator[Any]:
        """Yield this rank's batches."""
        for index, batch in enumerate(self._source):
            number, turn = divmod(index, self._place.size)
            if turn == 0 and (number < _ALL_OF_FIRST or number % _LATER == 0):
                self._noted.append(parts_of(_READ_BYTES, batch=batch))
            if turn == self._place.rank:
                yield batch

    def require_same(self) -> None:
        """Raise where the ranks' generators have given different batches, over the rounds that all have reached.

        Collective: every rank must call this.

        Raises:
            InvalidInput: they have; on every rank.
        """
        everyone = hvd.allgather_object(list(self._noted), name="rounds_of_a_generator")
        common = min(map(len, everyone))
        del self._noted[:common]
        first = everyone[0]
        if not all(are_alike(*pair) for noted in everyone for pair in zip(first[:common], noted, strict=False)):
            raise InvalidInput(
                "With --auto all ranks run the same generator, and each takes its batches.",
                "a generator that gives other batches on one rank than on another",
                "Give what it draws from a seed: np.random.default_rng(1) in place of default_rng(), or "
                "keras.utils.set_random_seed(1) before it is made; order words by sorted(words), not by set(words).",
            )
