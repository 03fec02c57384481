"""Defines what the state of a cluster passes to the code that ends its ranks and starts others.

Runs on: kernel.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_ddl.kernel.cluster_transitions import LifecycleState

if TYPE_CHECKING:
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.kernel.incarnation import Incarnation


@dataclass(frozen=True)
class Ending:
    """What must have ended before new ranks start, and before a stop is done.

    Attributes:
        old: the current ranks; None before the first ones.
        earlier: attempts to bring up ranks that have not ended yet, all cancelled.
    """

    old: Incarnation | None
    earlier: frozenset[Attempt]


@dataclass(eq=False)
class Attempt:
    """One attempt to bring up ranks: a start, a restart or a rebuild. A later one, or a stop, cancels it.

    Attributes:
        spec: which ranks.
        ending: what must have ended before.
        given_up: set when it is cancelled.
        report: what the next cell shows of it; None for nothing.
    """

    spec: ClusterSpec
    ending: Ending
    given_up: threading.Event = field(default_factory=threading.Event)
    report: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment.

    Attributes:
        step: the step of the attempt to bring up ranks; empty where there is none.
        spec: of the current ranks, or of those that are being started.
        incarnation: the current or last ranks; None before the first ones.
    """

    state: LifecycleState
    step: str
    spec: ClusterSpec
    incarnation: Incarnation | None

    @property
    def is_bringing_up(self) -> bool:
        """Whether ranks are being started."""
        return self.state in (LifecycleState.STARTING, LifecycleState.REBUILDING)
