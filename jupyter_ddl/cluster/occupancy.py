"""Finds what uses a device already: another cluster of this user's, or a process that NVML reports.

Runs on: kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psutil

from jupyter_ddl.cluster import folder as folders
from jupyter_ddl.cluster import gpu_places
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.preflight import shown_bytes
from jupyter_ddl.host.topology import compute_processes

if TYPE_CHECKING:
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.host.topology import ComputeProcess


def check_free(spec: ClusterSpec, before: ClusterSpec | None = None) -> None:
    """Check that no other cluster uses a device of this one, unless they may share it.

    Args:
        spec: what is to start.
        before: what is to end first, where that lives.

    Raises:
        InvalidInput: one does, and the error names it; or the site gives GPUs out, and these have no room.
    """
    gpu_places.check_free(spec, before)
    taken = _taken_by_clusters(spec)
    if not taken or spec.oversubscribe:
        return
    raise InvalidInput(
        "Clusters must not share a GPU.",
        "; ".join(f"{_named(device)} is used by {holder}" for device, holder in taken.items()),
        "Choose others with --gpus, end that cluster, or pass --oversubscribe.",
    )


def with_sharers_told(spec: ClusterSpec) -> ClusterSpec:
    """Return the spec with a note of what else uses its devices: processes of others, and our own clusters."""
    taken = _taken_by_clusters(spec)
    told = [f"{_named(device)} is shared with {holder}." for device, holder in taken.items()]
    told += [_told(process) for process in compute_processes(spec.devices) if process.device not in taken]
    return replace(spec, note=" ".join((spec.note, *told)))


def _taken_by_clusters(spec: ClusterSpec) -> dict[str, str]:
    """Return device -> the cluster that uses it, as text, in the order of the spec's devices."""
    taken: dict[str, str] = {}
    for folder in folders.running():
        if folder.name == spec.name:
            continue
        try:
            devices, kernel_pid = folder.spec().devices, folder.settings().get("kernel_pid")
        except ValueError:
            # It has ended since, and its folder was removed.
            continue
        for device in devices:
            taken.setdefault(device, f"the cluster {folder.name!r} of pid {kernel_pid}")
    return {device: taken[device] for device in dict.fromkeys(spec.devices) if device in taken}


def _told(process: ComputeProcess) -> str:
    try:
        owner = psutil.Process(process.pid)
        who = f" ({owner.name()} of {owner.username()})"
    except psutil.NoSuchProcess:
        # It has ended, or has another PID in this container.
        who = ""
    held = "" if process.used_bytes is None else f", which holds {shown_bytes(process.used_bytes)}"
    return f"Warning: {_named(process.device)} is used by pid {process.pid}{who}{held}."


def _named(device: str) -> str:
    return f"GPU {device}" if device.isdecimal() else device
