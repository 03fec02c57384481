"""Defines the states of a cluster, its events, and the table of its transitions.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from jupyter_ddl.errors import ClusterError


class LifecycleState(Enum):
    """The state of a cluster. The values are the hub's words."""

    STARTING = "starting"
    READY = "idle"
    RUNNING = "running"
    REBUILDING = "rebuilding"
    LOST = "lost"
    STOPPED = "stopped"


class LifecycleEvent(Enum):
    """An event that may change the state of a cluster."""

    START = "start"  # the user starts ranks, or restarts them
    UP = "up"  # new ranks are ready, and the setup cells were run on them
    NOT_UP = "not up"  # no new ranks came up
    RUN_BEGAN = "run began"
    RUNS_ENDED = "runs ended"  # the last active run has ended
    LOST = "lost"  # the ranks died
    REBUILD = "rebuild"  # new ranks are started without being asked
    ENDED = "ended"  # the ranks ended on request, of this kernel or another
    STOP = "stop"  # the user stops the ranks


@dataclass(frozen=True)
class Transition:
    """One change of a cluster's state.

    Attributes:
        cause: what led to it, as text.
        at_s: when, in seconds since the epoch.
    """

    before: LifecycleState
    event: LifecycleEvent
    after: LifecycleState
    cause: str
    at_s: float


_S = LifecycleState
_E = LifecycleEvent
_COLUMNS = (_S.STARTING, _S.READY, _S.RUNNING, _S.REBUILDING, _S.LOST, _S.STOPPED)
# Event -> the state that it leads to from each state. The same state: the event is ignored. None: it is refused.
# Ranks lost during a start leave the state as it is: the start finds that out, and reports it.
_TABLE: dict[LifecycleEvent, tuple[LifecycleState | None, ...]] = {
    #              STARTING     READY        RUNNING      REBUILDING     LOST           STOPPED
    _E.START:      (None,        _S.STARTING, _S.STARTING, _S.STARTING,   _S.STARTING,   _S.STARTING),
    _E.UP:         (_S.READY,    _S.READY,    _S.RUNNING,  _S.READY,      _S.LOST,       _S.STOPPED),
    _E.NOT_UP:     (_S.STOPPED,  _S.READY,    _S.RUNNING,  _S.LOST,       _S.LOST,       _S.STOPPED),
    _E.RUN_BEGAN:  (_S.STARTING, _S.RUNNING,  _S.RUNNING,  _S.REBUILDING, _S.LOST,       _S.STOPPED),
    _E.RUNS_ENDED: (_S.STARTING, _S.READY,    _S.READY,    _S.REBUILDING, _S.LOST,       _S.STOPPED),
    _E.LOST:       (_S.STARTING, _S.LOST,     _S.LOST,     _S.REBUILDING, _S.LOST,       _S.STOPPED),
    _E.REBUILD:    (_S.STARTING, _S.READY,    _S.RUNNING,  _S.REBUILDING, _S.REBUILDING, _S.STOPPED),
    _E.ENDED:      (_S.STARTING, _S.STOPPED,  _S.STOPPED,  _S.REBUILDING, _S.LOST,       _S.STOPPED),
    _E.STOP:       (_S.STOPPED,  _S.STOPPED,  _S.STOPPED,  _S.STOPPED,    _S.STOPPED,    _S.STOPPED),
}  # fmt: skip
TRANSITIONS = {event: dict(zip(_COLUMNS, row, strict=True)) for event, row in _TABLE.items()}


def state_after(state: LifecycleState, event: LifecycleEvent) -> LifecycleState:
    """Return the state that an event leads to: the same one where the event is ignored.

    Raises:
        ClusterError: the event is refused in this state.
    """
    after = TRANSITIONS[event][state]
    if after is None:
        raise ClusterError(
            "Only one restart can run at a time. Received: a restart while ranks are being ended or started. "
            "Wait for its end."
        )
    return after
