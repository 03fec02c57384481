"""With which status a rank's process ends where it can be a rank no longer, and what that means.

The rank knows why it ends, and mpiexec tells the lease no more than a number.
"""

from __future__ import annotations

LOOP_ENDED = 113
CANNOT_REPORT = 114
THREAD_ENDED = 115

MEANINGS = {
    LOOP_ENDED: (
        "the event loop in which it serves cells was ended, as by `exit()`, `loop.stop()` or a shutdown of its kernel"
    ),
    CANNOT_REPORT: "it could not report how its cell ended; what it knows stands in the cluster's log",
    THREAD_ENDED: "a thread by which it is reached has ended, or its descriptors were closed",
}
"""Status -> what a rank that ended itself with it says."""
