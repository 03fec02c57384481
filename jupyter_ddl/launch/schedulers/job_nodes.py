"""Makes the place of a job from its nodes, and reads what a job's script of ours says of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jupyter_ddl.launch.address import is_this_host
from jupyter_ddl.launch.place import Place
from jupyter_ddl.paths import RANKS_PER_NODE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.place import HostSlots, Kind


def job_place(kind: Kind, job: str, hosts: tuple[HostSlots, ...]) -> Place | None:
    """Return the place of a job; None where its only node is this host, which needs no other place."""
    is_here = len(hosts) == 1 and is_this_host(hosts[0].host)
    return None if is_here else Place(kind, hosts, job=job)


def ranks_per_node_of(variables: Mapping[str, str]) -> int | None:
    """Return how many ranks a node of a job takes, by its variables; None where they do not say.

    Our own scripts say it where the scheduler counts a node's processors, and not its ranks.
    """
    said = variables.get(RANKS_PER_NODE_VARIABLE, "")
    return int(said) if re.fullmatch(r"[1-9][0-9]{0,4}", said) else None


def ranks_per_node_line(count: int) -> str:
    """Return the line of a job's script that says it."""
    return f"export {RANKS_PER_NODE_VARIABLE}={count}"
