"""Has the ranks of a cluster that ends as idle save their variables, by a child of the lease (`kept_variables`).

Runs on: lease.
"""

from __future__ import annotations

import asyncio
import subprocess
from contextlib import suppress

from jupyter_ddl.host import run_module

# Variables may be large, on a slow file system; but who has the lease end by a signal waits `STOP_TIMEOUT_S`.
_PATIENCE_S, _PATIENCE_ASKED_S = 120.0, 8.0
_MORE_S = 6.0


class SavingChild:
    """The child that saves, while it does.

    Args:
        name: the cluster's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._child: subprocess.Popen[bytes] | None = None

    async def save(self, *, is_asked: bool) -> None:
        """Have the ranks save what cells defined; where they do not, the lease's log says why.

        Args:
            is_asked: a user or an administrator has the lease end, and waits for that.
        """
        patience_s = _PATIENCE_ASKED_S if is_asked else _PATIENCE_S
        command = run_module.command("jupyter_ddl.cluster.kept_variables", self._name, str(patience_s))
        try:
            # It prints into lease.log.
            with subprocess.Popen(command, stdin=subprocess.DEVNULL) as child:
                self._child = child
                with suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(child.wait, patience_s + _MORE_S)
                child.kill()
        except OSError as error:
            print(f"Variables were not kept: {error}", flush=True)
        self._child = None

    def end(self) -> None:
        """End it at once, if it runs."""
        if self._child is not None:
            self._child.kill()
