"""Defines the statuses with which a rank's process ends itself, and what each means.

The rank knows why it ends, but mpiexec reports only a number to the lease.
"""

from __future__ import annotations

LOOP_ENDED = 113
CANNOT_REPORT = 114
THREAD_ENDED = 115
CONTROLLER_AWAY = 116

MEANINGS = {
    LOOP_ENDED: (
        "the event loop in which it serves cells was ended, as by `exit()`, `loop.stop()` or a shutdown of its kernel"
    ),
    CANNOT_REPORT: "it could not report how its cell ended; what it knows stands in the cluster's log",
    THREAD_ENDED: "a thread by which it is reached has ended, or its descriptors were closed",
    CONTROLLER_AWAY: "the controller's host did not answer any more",
}
"""Status -> why a rank ended itself with it."""
