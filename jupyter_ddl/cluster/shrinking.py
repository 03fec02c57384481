"""Plans new ranks on the hosts that are left, after one was lost.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.planning import replanned
from jupyter_ddl.launch.place import JSRUN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.launch.place import Place
    from jupyter_ddl.protocol.faults import Fault


def without_lost_host(spec: ClusterSpec, fault: Fault, hosts: Mapping[str, str]) -> ClusterSpec:
    """Return what to start in place of lost ranks: fewer where a host was lost, and another one is left.

    Args:
        spec: of the lost ranks.
        fault: how they were lost.
        hosts: each host's own name -> the name with which it was given.
    """
    if fault.kind != "lost" or fault.subject != "host" or fault.host is None:
        return spec
    lost = hosts.get(fault.host, fault.host)
    left = tuple(one for one in spec.place.hosts if one.host != lost)
    if not left or len(left) == len(spec.place.hosts):
        return spec
    place = replace(spec.place, hosts=left)
    if place.launcher == JSRUN:
        # Slots may be cores there; ranks are divided evenly.
        return _smaller(spec, place, max(1, spec.n * len(left) // len(spec.place.hosts)), lost)
    # More than one rank a slot only where that was so before.
    n = max(1, spec.n * place.slots // spec.place.slots) if spec.n > spec.place.slots else min(spec.n, place.slots)
    return _smaller(spec, place, n, lost)


def _smaller(spec: ClusterSpec, place: Place, n: int, lost: str) -> ClusterSpec:
    smaller = replanned(spec, {"place": place, "n": n})
    return replace(smaller, note=f"{smaller.note.rstrip('.')}, without {lost}, which was lost.")
