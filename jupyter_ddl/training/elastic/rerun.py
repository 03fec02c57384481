"""Retries a function after a failed collective, where all ranks can.

A rank leaves the function in one of three cases, and reports which to the others: it returned, it raised an error of
its own, or a collective failed. Only in the third does it wait for the others to leave, which they do, since Horovod is
shut down then; and only if all are in the third do they initialise Horovod again, which takes all ranks.

Runs on: every rank.
"""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, Any, Literal

import horovod.tensorflow as hvd
import tensorflow as tf
from horovod.common.elastic import State
from horovod.common.exceptions import HorovodInternalError

from jupyter_ddl.engine import rank_state
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.training.requirements import require_horovod

if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = Literal["returned", "raised", "failed"]

_TAG = 4711
_POLL_S = 0.02


class _Runs:
    """How many runs this rank has begun. All ranks call `run` the same number of times, so it is the same on all."""

    def __init__(self) -> None:
        self.count = 0


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a training function, so that it begins from rank 0's state and survives failed collectives.

    Collective: every rank must call the decorated function, whose first argument is a KerasState.

    After a failed collective each rank restores its last commit, Horovod is initialised again, the state's reset
    callbacks are called, all ranks take rank 0's state, and the function is called again. The error is raised instead
    where one of the ranks has returned or raised an error of its own, or where nothing was committed since the last
    failure: a failure with a lasting cause would be retried for ever.

    Raises (the decorated function):
        InvalidInput: Horovod is not initialised; the first argument is no state; Horovod's elastic driver is asked
            for, which needs Gloo; Horovod owns MPI, so it cannot be initialised again.

    Example:
        >>> @hvd.elastic.run
        ... def train(state):
        ...     for state.epoch in range(state.epoch, 2):
        ...         model.fit(x, y, verbose=0)
        ...         state.commit()
        >>> train(hvd.elastic.KerasState(model, epoch=0))
    """

    @functools.wraps(func)
    def wrapper(state: Any, *args: Any, **kwargs: Any) -> Any:
        _check(state)
        attempts = _Attempts()
        while True:
            outcome: Outcome = "raised"
            try:
                state.sync()
                result = func(state, *args, **kwargs)
                outcome = "returned"
            except (HorovodInternalError, tf.errors.UnknownError) as error:
                if not _is_failed_collective(error):
                    raise
                outcome = "failed"
                state.restore()
                if not attempts.another(state, error):
                    raise
            else:
                return result
            finally:
                if outcome != "failed":
                    attempts.tell(outcome)
            state.on_reset()

    return wrapper


class _Attempts:
    """One call of a decorated function on this rank, and what it knows of the other ranks' calls."""

    def __init__(self) -> None:
        from mpi4py import MPI  # after hvd.init(), which may be what initialises MPI

        self._rank = rank_state.here()
        runs = self._rank.part(_Runs)
        runs.count += 1
        self._run = runs.count
        self._mpi = MPI
        self._world = MPI.COMM_WORLD
        self._round = 0
        self._commits = 0
        self._sent: list[Any] = []

    def tell(self, outcome: Outcome, *, progressed: bool = False) -> None:
        """Report to the other ranks how this one left the function."""
        for rank in range(self._world.size):
            if rank != self._world.rank:
                message = (self._run, self._round, outcome, progressed)
                self._sent.append(self._world.isend(message, dest=rank, tag=_TAG))

    def another(self, state: Any, error: BaseException) -> bool:
        """Return whether there is to be another attempt; Horovod is initialised then.

        Collective among the ranks whose collective failed.
        """
        commits = getattr(state, "commits", 0)
        progressed = self._round == 0 or commits > self._commits
        self._commits = commits
        self._shut_down(error)
        self.tell("failed", progressed=progressed)
        others = [self._outcome_of(rank) for rank in range(self._world.size) if rank != self._world.rank]
        self._round += 1
        if any(outcome != "failed" for outcome, _ in others) or not any([progressed, *(p for _, p in others)]):
            return False
        if self._rank.horovod.is_used():
            self._rank.horovod.initialise(self._world, on_subset=False)
        else:
            hvd.init()
        return True

    def _shut_down(self, error: BaseException) -> None:
        """Shut Horovod down, which ends the collectives of ranks that are still in the function."""
        if self._rank.horovod.is_used():
            self._rank.horovod.rest()  # remembers what the user's hvd.init asked for
        else:
            hvd.shutdown()
        if self._mpi.Is_finalized():
            raise InvalidInput(
                "hvd.elastic.run can try again only where mpi4py has initialised MPI.",
                "an MPI that Horovod has initialised, and ended with itself",
                "Write `from mpi4py import MPI` before hvd.init().",
            ) from error

    def _outcome_of(self, rank: int) -> tuple[Outcome, bool]:
        """Wait until another rank has left the function in this round, and return how, and whether it progressed."""
        while True:
            # Not a blocking receive: an interrupt must reach Python.
            while not self._world.iprobe(source=rank, tag=_TAG):
                time.sleep(_POLL_S)
            of_run, of_round, outcome, progressed = self._world.recv(source=rank, tag=_TAG)
            if (of_run, of_round) == (self._run, self._round):
                return outcome, progressed


def _check(state: Any) -> None:
    require_horovod("hvd.elastic.run")
    if os.environ.get("HOROVOD_ELASTIC", "0") not in ("", "0"):
        raise InvalidInput(
            "Horovod's elastic driver, with its host discovery script, needs Gloo; an MPI job keeps its ranks.",
            f"HOROVOD_ELASTIC={os.environ['HOROVOD_ELASTIC']}",
            "Start the ranks with a fixed number, and leave HOROVOD_ELASTIC out of the environment.",
        )
    if not isinstance(state, State):
        raise InvalidInput(
            "The first argument of a function under hvd.elastic.run is its state.",
            f"{type(state).__module__}.{type(state).__name__}",
            "Pass hvd.elastic.KerasState(model, ...).",
        )


def _is_failed_collective(error: BaseException) -> bool:
    """Return whether this is what Horovod's operations raise in TensorFlow when the core gives up.

    Source: horovod 0.28.1, horovod/common/common.h, SHUT_DOWN_ERROR, and its operations' names
    """
    return isinstance(error, HorovodInternalError) or "Horovod" in str(error)
