"""Makes the place of a job from its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.launch.address import is_this_host
from jupyter_ddl.launch.place import Place

if TYPE_CHECKING:
    from jupyter_ddl.launch.place import HostSlots, Kind


def job_place(kind: Kind, job: str, hosts: tuple[HostSlots, ...]) -> Place | None:
    """Return the place of a job; None where its only node is this host, which needs no other place."""
    is_here = len(hosts) == 1 and is_this_host(hosts[0].host)
    return None if is_here else Place(kind, hosts, job=job)
