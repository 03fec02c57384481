"""Decides which of a cell's fits saves where, and restores the random states that a cell that saves begins with.

Runs on: every rank.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.checkpoints import archive, data_position, rng_state
from jupyter_ddl.checkpoints.saver import Saver, from_rank_0
from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.protocol import checkpoint_folder
from jupyter_ddl.training.backends import global_process_set, hvd, ops
from jupyter_ddl.training.fit.saving import Unsaved
from jupyter_ddl.training.fit.unexchanged import ranks_that_train
from jupyter_ddl.training.optimizer.distribution import exchange_of, is_distributed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass
class _Begun:
    """A cell that saves.

    Attributes:
        folder: it saves to.
        draws: the states of this rank's random number generators when it began.
        fits: how many of its fits have begun.
    """

    folder: str
    draws: dict[str, Any]
    fits: int = 0


class Saved(Unsaved):
    """A `fit` that is saved.

    Attributes:
        callbacks: that come after all others.
    """

    def __init__(self, begun: _Begun, model: Any, arguments: dict[str, Any], others: Sequence[Any]) -> None:
        begun.fits += 1
        self._model = model
        self._data = data_position.Data()
        first = arguments.get("initial_epoch", 0)
        self.callbacks = (Saver(begun.folder, begun.fits, begun.draws, self._data, first, others),)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let Keras's `fit` run."""
        before = self._model._initial_epoch
        try:
            with data_position.noted(self._data):
                yield
        finally:
            self._model._initial_epoch = before  # the model's next fit begins where it says


class CellCheckpoints:
    """The checkpoints of the cell that runs."""

    def __init__(self) -> None:
        self._begun: _Begun | None = None

    def begin(self) -> None:
        """Prepare this rank for a cell that saves: restore the random states with which the first such cell began.

        So initial weights, splits and shuffles are those of the training that it resumes.

        Collective: every rank must call this.
        """
        folder = run_context.options().checkpoint
        if folder is None:
            return  # an earlier cell had --checkpoint, and this one imports Keras
        data_position.install()
        if not hvd.is_initialized():
            hvd.init()

        def before() -> Sequence[dict[str, Any]] | None:
            found = checkpoint_folder.newest(folder)
            return None if found is None else archive.describe(found.path).draws

        saved = from_rank_0(before)
        if saved is not None and len(saved) == hvd.size():
            rng_state.put_back(saved[hvd.rank()]["began"])
        self._begun = _Begun(os.fspath(folder), rng_state.state())

    def of_this_fit(self, model: Any, arguments: dict[str, Any], others: Sequence[Any]) -> Unsaved:
        """Return whether and where a `fit` is saved.

        Fits are counted from 1 in each cell: those that all ranks take part in, or where there is one rank, all.

        Args:
            model: compiled.
            arguments: of `fit`, by name.
            others: its callbacks on this rank, but for what is returned.

        Raises:
            InvalidInput: only some of the ranks train the model.
        """
        if run_context.options().checkpoint is None or self._begun is None:
            return Unsaved()
        if hvd.size() > 1 and not ops.is_one_program():
            if not is_distributed(model.optimizer):
                if ranks_that_train() > 1:
                    print(
                        "WARNING: --checkpoint saves what all ranks train together: this fit is not saved, since its "
                        "optimizer is no hvd.DistributedOptimizer.",
                        file=sys.stderr,
                    )
                return Unsaved()
            process_set = exchange_of(model.optimizer).process_set
            if process_set is not global_process_set:
                raise InvalidInput(
                    "--checkpoint saves the one model that all ranks train.",
                    f"an optimizer over the process set of ranks {process_set.ranks}",
                    "Drop --checkpoint, and save on one rank of each set.",
                )
        return Saved(self._begun, model, arguments, others)


def of_this_rank() -> CellCheckpoints:
    """Return this rank's checkpoints."""
    return rank_state.here().part(CellCheckpoints)


def of_this_fit(model: Any, arguments: dict[str, Any], others: Sequence[Any]) -> Unsaved:
    """Return whether and where a `fit` of this rank is saved, as `CellCheckpoints.of_this_fit` does."""
    return of_this_rank().of_this_fit(model, arguments, others)
