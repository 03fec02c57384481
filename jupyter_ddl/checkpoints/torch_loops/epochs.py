"""Counts the epochs of a loop of PyTorch's, saves what it trains after each, and begins where a saved one ended.

Runs on: every rank.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from jupyter_ddl.checkpoints.torch_loops import rng_state
from jupyter_ddl.checkpoints.torch_loops.folder import LoopFolder, check_own
from jupyter_ddl.checkpoints.torch_loops.training_state import (
    TrainingState,
    broadcast,
    is_joined,
    random_states,
    rank,
)
from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.engine.cells import Cell


def epochs(count: int, *, every: int = 1, **training: Any) -> Iterator[int]:
    """Yield the epochs of a training loop, from 0, and save what it trains after each, where the cell has a folder.

    With `%%distributed --checkpoint DIR` the loop begins where the newest checkpoint ended; without, this is
    `range(count)`.

    Runs on: every rank, or any process.
    Collective: every rank must call this, and draw as many epochs.

    Args:
        count: how many epochs there are to be.
        every: save after every n-th epoch, and after the last.
        training: what is trained, by name: models (also in DistributedDataParallel or `fully_shard`), optimizers of
            their parameters, schedulers, scalers, anything with `state_dict` and `load_state_dict`.

    Raises:
        InvalidInput: a value is wrong; the checkpoint is of another training; ranks train without a process group.

    Example:
        >>> for epoch in jupyter_ddl.torch.epochs(10, model=model, optimizer=optimizer):
        ...     for x, y in loader:
        ...         optimizer.zero_grad()
        ...         loss(model(x), y).backward()
        ...         optimizer.step()
    """
    for name, value, least in (("count", count, 0), ("every", every, 1)):
        if value < least:
            raise InvalidInput(f"{name} is a number from {least} on.", f"{name}={value}", "Pass another number.")
    folder = run_context.options().checkpoint
    state = TrainingState(training)
    if folder is None:
        return iter(range(count))
    return _SavedEpochs(os.fspath(folder), count, every, state).run()


class Loops:
    """The loops of this rank's current cell that are saved.

    Attributes:
        began: the random states with which the cell began; None before it imports PyTorch.
    """

    def __init__(self) -> None:
        self._cell: Cell | None = None
        self._count = 0
        self.began: dict[str, Any] | None = None

    def begin(self) -> None:
        """Begin a cell: with the random states with which the first such cell began, so that it draws the same."""
        self._cell, self._count = run_context.current(), 0
        folder = run_context.options().checkpoint
        newest = None if folder is None else LoopFolder(folder, 1).newest()
        if newest is not None:
            check_own(newest[1])
            states = random_states(newest[1])
            if states is not None:
                rng_state.put_back(states["began"])
        self.began = rng_state.state()

    def next(self) -> int:
        """Return the number of a loop that begins, from 1."""
        if self._cell is not run_context.current():
            self.begin()
        self._count += 1
        return self._count

    def is_saving(self) -> bool:
        """Return whether a loop of the current cell is saved."""
        return self._count > 0 and self._cell is run_context.current()


def loops() -> Loops:
    """Return this rank's."""
    return rank_state.here().part(Loops)


class _SavedEpochs:
    def __init__(self, folder: str, count: int, every: int, state: TrainingState) -> None:
        running = run_context.current()
        if running is not None and running.ranks > 1 and not is_joined():
            raise InvalidInput(
                "--checkpoint saves what all ranks train together.",
                f"{running.ranks} ranks without a process group",
                "Call torch.distributed.init_process_group() and wrap the model, use --auto, or drop --checkpoint.",
            )
        self._folder = LoopFolder(folder, loops().next())
        self._count = count
        self._every = every
        self._state = state
        self._is_first = rank() == 0

    def run(self) -> Iterator[int]:
        """Yield the epochs that are left."""
        for epoch in range(self._resume(), self._count):
            yield epoch
            if (epoch + 1) % self._every == 0 or epoch + 1 == self._count:
                self._save(epoch + 1)

    def _resume(self) -> int:
        """Take the newest checkpoint, if there is one; return the epoch to begin with."""
        problem, newest = None, None
        if self._is_first:
            try:
                self._folder.make()
                newest = self._folder.newest()
                if newest is not None:
                    check_own(newest[1])
            except InvalidInput as error:
                problem = error.rule, error.received, error.remedy
        problem, newest = broadcast((problem, newest))
        if problem is not None:
            raise InvalidInput(*problem)
        if newest is None:
            return 0
        epoch: int
        epoch, path = newest
        states = self._state.load(path)
        if states is None:
            self._tell(f"resumes after epoch {epoch} of {self._count} from {path}, which another number of ranks saved")
            return epoch
        rng_state.put_back(states["now"])
        self._tell(f"resumes after epoch {epoch} of {self._count} from {path}")
        return epoch

    def _save(self, epoch: int) -> None:
        written: Path = broadcast(self._folder.unfinished(epoch) if self._is_first else None)
        random = {"began": loops().began, "now": rng_state.state()}
        try:
            self._state.save(written, random)
            if self._is_first:
                self._folder.finish(written, epoch)
        except OSError as error:
            # Training is worth more than its checkpoint.
            self._tell(f"WARNING: epoch {epoch} is not saved in {self._folder.path}: {error}")

    def _tell(self, text: str) -> None:
        if self._is_first:
            print(text, file=sys.stderr if text.startswith("WARNING") else sys.stdout, flush=True)
