"""Notes what a cell's code raised on this rank, keeps no other rank waiting for it, and makes the report of it.

Runs on: every rank, in the main thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from time import time
from typing import TYPE_CHECKING

from jupyter_ddl.engine import advice, collective_mismatch
from jupyter_ddl.engine.error_text import chain_of, give_up_text, text_of, words_of
from jupyter_ddl.protocol.events import COLLECTIVE_ON_SUBSET, RankFailed
from jupyter_ddl.protocol.requests import CellRaised

if TYPE_CHECKING:
    from jupyter_ddl.engine.display import Outlet
    from jupyter_ddl.engine.event_log import Journal
    from jupyter_ddl.engine.interrupts import Interrupts
    from jupyter_ddl.engine.rank_shell import RankShell
    from jupyter_ddl.engine.rank_state import RankState
    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.requests import RunCell

# How long the text of a rank's own exception may take once the cell is released.
_READ_S = 1.0


class CellFailure:
    """The failure of one cell after another on this rank."""

    def __init__(
        self,
        shell: RankShell,
        world: World,
        state: RankState,
        emit: Journal,
        outlet: Outlet,
        interrupts: Interrupts,
    ) -> None:
        self._shell = shell
        self._world = world
        self._state = state
        self._emit = emit
        self._outlet = outlet
        self._interrupts = interrupts
        # When the cell's own code raised, and whether after its release; None while it has not.
        self._raised_s: float | None = None
        self._was_released = False
        # Whether what it raised is an effect of another rank's end.
        self._is_effect = False

    def begin(self) -> None:
        """Forget the earlier cell's."""
        self._raised_s, self._was_released, self._is_effect = None, False, False

    def let_others_go(self) -> None:
        """Keep no rank waiting for this one; where no thread can be started for it, the session asks other ranks to."""
        with suppress(RuntimeError):
            self._state.collectives.raised()

    def note(self, error: BaseException | None) -> bool:
        """Note that the cell has raised, and end its collectives; return whether a plain traceback will do."""
        # A release that comes now would interrupt the formatting, not the cell.
        self._interrupts.disarm()
        # Asked first: this rank is about to end its collectives, too, and the others' errors then have it released.
        self._was_released = self._interrupts.is_requested(self._outlet.run)
        self._is_effect = error is not None and self._state.collectives.was_ended_elsewhere(words_of(error))
        self.let_others_go()
        # A traceback takes a moment to make, on a busy machine seconds, in which others need not wait for this rank.
        if os.getpid() == self._world.pid:
            self._emit.announce(CellRaised(self._outlet.run, self._world.rank))
        self._raised_s = time()
        if error is None:
            return False
        advice.leave_out_our_imports(error)
        # A released rank's traceback is rarely read, and IPython takes seconds for a deep one of TensorFlow's.
        return self._was_released or self._is_effect or not self._is_readable(error)

    def report(self, request: RunCell, error: BaseException, reason: str | None) -> RankFailed:
        """Return the report of a cell's end.

        Args:
            request: the cell.
            error: what it raised, or what kept it from running.
            reason: of its release; None where there was none.
        """
        # An exception of its own stays a cause, even if a release came meanwhile.
        was_released = reason is not None if self._raised_s is None else self._was_released
        name, message = type(error).__name__, text_of(error)
        resting = self._state.collectives.resting
        has_given_up = resting.has_given_up(message)
        is_effect = self._is_effect or has_given_up
        if has_given_up and not was_released and request.is_on_subset(self._world.world_size):
            # The library's own text says that a rank has failed; here the missing ranks do not run the cell.
            name, is_effect = COLLECTIVE_ON_SUBSET, False
            message = (
                f"A collective of all ranks must be entered by all ranks. Received: a cell on ranks "
                f"{list(request.ranks)} of {self._world.world_size}. Run the cell on all ranks, or use a process set."
            )
            self._shell.traceback_lines.append(f"{name}: {message}")
        what_to_write = advice.of(error)
        if what_to_write is not None:
            self._shell.traceback_lines.append(what_to_write)
        return RankFailed(
            request.run,
            self._world.rank,
            self._world.host,
            name,
            message,
            tuple(self._shell.traceback_lines),
            released=was_released or is_effect,
            at_s=self._raised_s or time(),
            uses_horovod=resting.is_used(),
            reason=reason if was_released else None,
            given=collective_mismatch.given(error, message),
            entered=self._state.collectives.entered(),
        )

    def _is_readable(self, error: BaseException) -> bool:
        """Return whether the exception's text can be read; a release ends what hangs, as a `__str__` of the user's."""
        reading = error
        try:
            try:
                # Its own exception is a cause, also where a release has come since: then it has a moment.
                self._interrupts.arm(self._outlet.run, _READ_S)
                for reading in chain_of(error):
                    text_of(reading)
            finally:
                self._interrupts.disarm()
        except KeyboardInterrupt:
            give_up_text(reading, "it took until the cell was released")
            return False
        return True
