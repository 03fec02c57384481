"""Reports what this rank's host has: GPUs, how they are joined, network interfaces.

Runs on: every rank that is asked.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jupyter_ddl.host.description import describe_host
from jupyter_ddl.protocol.rank_answers import HostDescribed

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.events import Event


def host_described(world: World) -> HostDescribed:
    """Return what this rank's host has."""
    return HostDescribed(world.rank, world.host, describe_host())


def report_host(world: World, emit: Callable[[Event], None]) -> None:
    """Send HostDescribed from a thread of its own: a driver without its persistence mode takes seconds to answer.

    Args:
        world: this rank's.
        emit: sends it.
    """
    threading.Thread(target=lambda: emit(host_described(world)), name="jupyter_ddl host", daemon=True).start()
