"""Checks what ranks need of a host besides cores and GPUs: loopback, a name, room, and free devices."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import asdict
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import folder as folders
from jupyter_ddl.doctor.report import Check
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import preflight as host
from jupyter_ddl.host.interfaces import interfaces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.protocol.host_topology import Interface

RESOLVE_S = 5.0


def check_loopback() -> Check:
    """Check that kernel and ranks can reach each other."""
    try:
        host.check_loopback()
    except HostUnfit as error:
        return Check("Loopback", "problem", f"{error.rule} Received: {error.received}.", error.remedy)
    return Check("Loopback", "ok", "processes here reach each other on 127.0.0.1")


def check_host_name(
    name: str | None = None, resolve: Callable[[str], str] = socket.gethostbyname, limit_s: float = RESOLVE_S
) -> Check:
    """Check that this host's own name can be looked up, and soon.

    Args:
        name: what to look up; by default this host's name.
        resolve: from a name to an address.
        limit_s: how long that may take.
    """
    name = name or socket.gethostname()
    remedy = "Ranks on one host do without it; add it to /etc/hosts before you train on several."
    pool = ThreadPoolExecutor(1)
    facts: dict[str, object] = {"name": name, "address": None}
    try:
        address = pool.submit(resolve, name).result(limit_s)
    except TookTooLong:
        return Check("Host name", "note", f"{name} is not looked up within {limit_s:g} s", remedy, facts)
    except OSError as error:
        return Check("Host name", "note", f"{name} does not resolve ({error.strerror or error})", remedy, facts)
    finally:
        pool.shutdown(wait=False)
    return Check("Host name", "ok", f"{name} is {address}", facts=facts | {"address": address})


def check_interfaces(found: Sequence[Interface] | None = None) -> Check:
    """List the network interfaces by which other hosts reach this one.

    Args:
        found: by default this host's.
    """
    listed = interfaces() if found is None else found
    texts = [_as_text(one) for one in listed]
    facts = {"interfaces": [asdict(one) for one in listed]}
    return Check("Networks", "ok", ", ".join(texts) or "none but loopback", facts=facts)


def _as_text(interface: Interface) -> str:
    speed = [] if interface.mbit_per_s is None else [f"{interface.mbit_per_s:,} Mbit/s"]
    told = [*(["InfiniBand"] if interface.is_infiniband else []), *speed]
    return f"{interface.name} {interface.address}" + (f" ({', '.join(told)})" if told else "")


def check_room() -> Check:
    """Check that there is room on the disks that ranks write to."""
    needed = {
        "The folder of the clusters": (paths.clusters_dir(), paths.RUNTIME_VARIABLE),
        "The folder of temporary files, which MPI uses,": (host.temporary_dir(), "TMPDIR"),
    }
    facts: dict[str, object] = {}
    try:
        for what, (folder, variable) in needed.items():
            host.check_room(folder, what, variable)
            facts[variable] = host.free_bytes(folder)
    except HostUnfit as error:
        return Check("Room", "problem", f"{error.rule} Received: {error.received}.", error.remedy, facts)
    runs = paths.runs_dir()
    facts[paths.RUNS_VARIABLE] = host.free_bytes(runs)
    try:
        host.check_room(runs, "The folder of the runs", paths.RUNS_VARIABLE)
    except HostUnfit as error:
        remedy = f"{error.remedy} Cells train meanwhile, and leave no record."
        return Check("Room", "note", f"{error.rule} Received: {error.received}.", remedy, facts)
    least = min(host.free_bytes(folder) for folder in (runs, *(folder for folder, _ in needed.values())))
    return Check(
        "Room", "ok", f"{host.shown_bytes(least)} free where clusters, runs and temporary files go", facts=facts
    )


def check_shared_memory(ranks: int) -> Check:
    """Check that there is shared memory for ranks on this host.

    Args:
        ranks: how many a start would take by default.
    """
    free_bytes = host.shared_memory_free_bytes()
    facts = {"free_bytes": free_bytes, "ranks": ranks}
    text = f"{host.shown_bytes(free_bytes)} free in {host.SHARED_MEMORY}"
    if not host.has_shared_memory(ranks):
        wanted = host.shown_bytes(ranks * host.SEGMENT_BYTES)
        remedy = (
            f"{ranks} ranks take {wanted} there: they exchange through files in {host.temporary_dir()}, and NCCL may "
            "fail. Give the container more: docker run --shm-size=1g"
        )
        return Check("Shared memory", "note", text, remedy, facts)
    return Check("Shared memory", "ok", text, facts=facts)


def check_clusters() -> Check:
    """Report which clusters of this user's run here already, and on which devices."""
    found = []
    for folder in folders.running():
        spec = folder.spec()
        on = f"GPUs {','.join(dict.fromkeys(spec.devices))}" if spec.devices else "cores"
        if spec.finds_devices:
            on = "GPUs of their hosts"
        found.append(f"{folder.name} ({spec.n} ranks on {on})")
    facts = {"running": found}
    return Check("Clusters", "ok", ", ".join(found) if found else "none runs", facts=facts)
