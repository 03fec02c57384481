"""When Horovod runs: from before a cell that may need it until after, and never between cells.

An idle Horovod keeps a core of each rank busy, and initialising it takes all ranks together, so the kernel decides for
all of them at once.
"""

from __future__ import annotations

import re

# A cell that names one of these may enter a collective without calling `hvd.init()` itself.
_NAMES = re.compile(r"\b(horovod|hvd|jupyter_ddl|ddl)\b")


class HorovodTurns:
    """Decides for one world, from what its runs report."""

    def __init__(self) -> None:
        self._is_used = False
        self._runs = False

    def begins_with(self, code: str) -> bool:
        """Return whether Horovod must be initialised on all ranks before this cell.

        Yes where the cell names it, and from then on where any code, also a module's, has called `hvd.init()`.
        """
        begins = self._is_used or bool(_NAMES.search(code))
        self._runs |= begins
        return begins

    def rests_after(self, *, uses_horovod: bool, idle: bool) -> bool:
        """Return whether Horovod must be shut down on all ranks.

        Args:
            uses_horovod: a rank has called `hvd.init()`, in the run that ended or before.
            idle: no other run goes on.
        """
        self._is_used |= uses_horovod
        self._runs |= uses_horovod
        rests = self._runs and idle
        self._runs &= not rests
        return rests
