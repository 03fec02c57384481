"""Looks at some steps whether the ranks train one model, each on its own data, and says so where they do not.

A rank writes its checksums down and reads those of the others, if these are there: the last one to come to a step finds
all. None waits. That is done after steps whose distance grows up to a thousand, when the next backward pass begins, and
at the end of the cell.

Runs on: every rank, in the thread that trains.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Protocol
from weakref import ref

import torch

from jupyter_ddl.protocol.cell_options import WARN
from jupyter_ddl.torch_training import judgement
from jupyter_ddl.torch_training.batches import Looked
from jupyter_ddl.torch_training.notes import Board, Note
from jupyter_ddl.torch_training.weights import Wrapped, checksums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_ddl.engine.cells import Cell

# After these steps; from the last of them on, after each further such number.
_STEPS = (3, 10, 100, 1000)
# Ranks that average their weights now and then, and not their gradients, have done so by then.
_LATE = 100
_END = "end"
_BATCHES = 3
# Fewer different values, or samples, may be alike by chance: as in `training/consistency/same_batches`.
_FEWEST = 16


class Groups(Protocol):
    """The process groups of this rank."""

    @property
    def run(self) -> str:
        """The run of the current cell, the same on all ranks."""

    def connection(self) -> Any:
        """Return a connection to the ranks' store; None while there is none."""

    def collectives(self) -> int | None:
        """Return how many collectives this rank has entered; None where they are not counted."""


class Checks:
    """The checks of one rank, cell by cell.

    Args:
        groups: of this rank.
        rank: its number; world_size that of all.

    Attributes:
        is_on: the current cell is checked.
        is_due: the ranks' weights are to be looked at, as `look` does.
        wants_batches: its first batches are still to be looked at.
        wrapped: the parameters that DDP keeps the same.
    """

    def __init__(self, groups: Groups, rank: int, world_size: int) -> None:
        self._groups = groups
        self._board = Board(groups.connection, rank, world_size)
        self.wrapped = Wrapped()
        self.wants_batches = self.is_due = False
        self._pid = os.getpid()
        self.is_on = False

    def begin(self, cell: Cell) -> None:
        """Begin a cell."""
        self.is_on = cell.ranks > 1 and not cell.options.independent
        self._cell = cell
        self.wrapped.has_any = False
        self._board.begin(self._groups.run, cell.ranks)
        self._optimizers: list[ref[Any]] = []
        self._last: Callable[[], Any] = bool
        self._step = 0
        self.is_due = False
        self._due = _STEPS[0]
        self._entered: int | None = None
        self._looked = Looked()
        self.wants_batches = self.is_on
        # What has been said, by this rank or, as the board says, by another.
        self._said: set[str] = set()

    def batch(self, batch: Any) -> None:
        """Look at one of the first batches."""
        self._looked.look(batch)
        self.wants_batches = len(self._looked.digests) < _BATCHES

    def optimizer(self, optimizer: Any) -> None:
        """Note an optimizer that makes a step."""
        if self._last() is not optimizer:
            self._last = ref(optimizer)
            if all(known() is not optimizer for known in self._optimizers):
                self._optimizers.append(self._last)
        if self.wrapped.has_any:
            # One parameter says it of its model.
            self.wrapped.stepped(group["params"][0] for group in optimizer.param_groups if group["params"])

    def step(self) -> None:
        """Count a step."""
        self._step += 1
        if self._step == 1:
            self._entered = self._groups.collectives()
        if self._step == self._due:
            self._due = next((step for step in _STEPS if step > self._step), self._step + _STEPS[-1])
            self.is_due = True

    def look(self) -> None:
        """Look, before the backward pass that follows a step: what belongs to the step has been done by then.

        Raises:
            RanksOutOfSync: the ranks hold different weights, and must not.
        """
        self.is_due = False
        self._look(str(self._step), is_late=self._step >= _LATE)

    def conclude(self) -> None:
        """Look once more: the cell has ended well on this rank.

        Raises:
            RanksOutOfSync: the ranks hold different weights, and must not.
        """
        if self.is_on and self._step:
            self._look(_END, is_late=True)

    def _look(self, moment: str, *, is_late: bool) -> None:
        if os.getpid() != self._pid or _is_captured():
            # In a process that the code forked, the connection is the rank's.
            return
        together = None
        if self._cell.options.auto is not None and not self.wrapped.has_any:
            together = tuple(range(self._cell.ranks))
        # One that is gone keeps its number, which is the same on all ranks.
        optimizers = [known() for known in self._optimizers]
        # An optimizer that exchanges its gradients itself says between whom.
        found = [
            checksums(one, self.wrapped, together=together or getattr(one, "ranks_together", None))
            for one in optimizers
        ]
        batches = self._looked.digests if self._looked.tell_apart(values=_FEWEST, samples=_FEWEST) else ()
        note = Note(
            self._step,
            tuple(weights for weights, _, _ in found),
            self._is_alone(),
            any(is_sharded for _, _, is_sharded in found),
            tuple(batches),
        )
        self._board.write(moment, note, tuple(details for _, details, _ in found))
        notes = self._board.read(moment)
        if notes is not None:
            self._judge(moment, notes, is_late=is_late)

    def _is_alone(self) -> bool:
        """Return whether this rank has exchanged nothing since its first step."""
        entered = self._groups.collectives()
        if getattr(sys.modules.get("horovod.torch"), "__name__", "") == "horovod.torch":
            # Horovod's own exchange is not counted.
            return False
        return entered == 0 or (self._step > 1 and entered is not None and entered == self._entered)

    def _judge(self, moment: str, notes: Mapping[int, Note], *, is_late: bool) -> None:
        are_alone = all(note.is_alone for note in notes.values())
        for apart in judgement.apart(notes):
            if not (apart.is_sure or is_late):
                continue
            different = judgement.difference(apart, lambda rank: self._board.details(moment, rank))
            if different is None:
                continue
            if are_alone and not apart.is_sure:
                self._say("alone", judgement.alone_text(len(notes)))
            elif apart.is_sure and self._cell.options.on_drift != WARN:
                raise different.error(self._step)
            else:
                self._say("apart", f"WARNING: {different.text(self._step)}")
        if self._cell.options.auto is None and "alone" not in self._said:
            same = judgement.on_same_batches(notes)
            if same:
                self._say("same batches", judgement.same_batches_text(same, len(notes)))

    def _say(self, what: str, text: str) -> None:
        """Print a warning once in a cell, on one rank."""
        if what not in self._said:
            self._said.add(what)
            if self._board.is_first(what):
                print(text, file=sys.stderr, flush=True)


def _is_captured() -> bool:
    """Return whether a CUDA graph is being captured, in which nothing can be read."""
    return bool(torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing())
