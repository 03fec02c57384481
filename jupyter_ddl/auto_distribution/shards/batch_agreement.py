"""Checks that all ranks make the same batches of one process, by the first batch of each pass.

Ranks that shuffle differently would train on some samples twice and on others never, silently.

Runs on: every rank.
"""

from __future__ import annotations

import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.backends import hvd, ops


class BatchAgreement:
    """A checksum of this rank's first batch, of all its parts."""

    def __init__(self) -> None:
        with ops.on_device("CPU:0"):
            self.first = ops.number(0, "int64", "first_batch")

    def note(self, checksum: int) -> None:
        """Note the first batch of a pass."""
        self.first.assign(checksum)

    def require_same(self, what: str = "first batches") -> None:
        """Raise where the ranks have noted different batches.

        Collective: every rank must call this.

        Args:
            what: what differs, for the message.

        Raises:
            InvalidInput: they have; on every rank.
        """
        mine = ops.tensor(np.array([self.first.numpy()], np.int64))
        everyone = ops.array(hvd.allgather(mine, name="first_batches"))
        if len(set(everyone.tolist())) > 1:
            raise InvalidInput(
                "With --auto all ranks make the same batches, and each takes its part.",
                f"{what} that differ between the ranks",
                "Shuffle with a seed, or call keras.utils.set_random_seed before the data are made, with one number on "
                "all ranks; and order words by sorted(words), not by set(words).",
            )
