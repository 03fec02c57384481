"""Reads which of this host's GPUs a user wants for ranks: `--gpus 0,1`, `gpus=["GPU-8932f937"]`, `--gpus none`.

Runs on: kernel, a script's terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.topology import VISIBLE_VARIABLE, find_gpu, list_gpus, visible_gpus

if TYPE_CHECKING:
    from jupyter_ddl.host.topology import Gpu

NO_GPUS = ("", "none")


def is_none(gpus: Sequence[str | int] | str | None) -> bool:
    """Return whether the user wants the cores, whatever GPUs there are."""
    if isinstance(gpus, str):
        return gpus.strip().lower() in NO_GPUS
    return gpus is not None and len(gpus) == 0


def chosen(gpus: Sequence[str | int] | str | None) -> tuple[str, ...]:
    """Return the devices to give to the ranks; empty for the cores.

    Raises:
        InvalidInput: what was requested is no list, names what is not there or hidden, or one twice.
        ClusterError: NVML is there but does not work.
    """
    if gpus is not None and not isinstance(gpus, (str, Sequence)):
        raise InvalidInput("gpus must be a list.", f"gpus={gpus!r}", f"Pass gpus=[{gpus!r}].")
    if is_none(gpus):
        return ()  # NVML is not asked, so that a host where it is broken can compute on its cores
    known = list_gpus()
    visible = visible_gpus(known)
    if gpus is None:
        return visible
    entries = [str(entry).strip() for entry in (gpus.split(",") if isinstance(gpus, str) else gpus)]
    found: list[str] = []
    for entry in entries:
        gpu = find_gpu(entry, known)
        if gpu is None or gpu.device not in visible:
            raise InvalidInput(
                "Each of --gpus must be the index or UUID of a GPU that we may use.",
                f"{entry!r}, {'which does not exist' if gpu is None else f'which {VISIBLE_VARIABLE} hides'}",
                f"GPUs here: {_listing(known, visible)}.",
            )
        if gpu.device in found:
            raise InvalidInput(
                "Each GPU must be named once in --gpus.",
                ",".join(entries),
                "Leave the second one out; for several ranks on a GPU pass -n and --oversubscribe.",
            )
        found.append(gpu.device)
    return tuple(found)


def _listing(known: Sequence[Gpu], visible: Sequence[str]) -> str:
    usable = [f"{gpu.device} ({gpu.name})" for gpu in known if gpu.device in visible]
    return ", ".join(usable) or "none; pass --gpus none to use the cores"
