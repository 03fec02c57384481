"""Formats what hosts have for the exchange between ranks: their GPUs with the paths between them, their interfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.protocol.aligned_rows import aligned
from jupyter_ddl.protocol.host_topology import PATHS, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_ddl.protocol.host_topology import HostGpu, HostTopology, Interface

_INTERFACES = ("host", "interface", "address", "speed", "InfiniBand")
_NOT_SAID = "-"


def topology_text(found: Mapping[str, HostTopology | None]) -> str:
    """Return a table of the GPUs of each host, and one of all hosts' interfaces, as aligned text.

    Hosts whose GPUs are alike, and joined alike, share a table.

    Args:
        found: host -> what it has; None where it did not answer.
    """
    blocks = [_gpus_text(hosts, one) for hosts, one in _alike(found)]
    if silent := [host for host, one in found.items() if one is None]:
        blocks.append(f"{', '.join(silent)}: no rank there has answered.")
    rows = [_cells(host, one) for host, has in found.items() if has is not None for one in has.interfaces]
    blocks += ["\n".join(aligned([_INTERFACES, *rows]))] if rows else []
    blocks += [
        f"{host}: no network interface but loopback is known."
        for host, has in found.items()
        if has is not None and not has.interfaces
    ]
    paths = {path for has in found.values() if has is not None for gpu in has.gpus for path in gpu.paths}
    blocks += [f"{legend}."] if (legend := legend_of(paths)) else []
    return "\n\n".join(blocks)


def legend_of(paths: Iterable[str]) -> str:
    """Return the meaning of paths between GPUs, from the quickest to the slowest; empty where there are none."""
    used = set(paths)
    linked = sorted((path for path in used if _nvlinks(path)), key=_nvlinks, reverse=True)
    said = [f"{path}: {_nvlinks(path)} NVLink{'' if _nvlinks(path) == 1 else 's'}" for path in linked]
    said += [f"{path}: {meaning}" for path, meaning in PATHS.items() if path in used]
    return "; ".join([*said, *([f"{UNKNOWN}: NVML does not say"] if UNKNOWN in used else [])])


def _nvlinks(path: str) -> int:
    number = path.removeprefix("NV")
    return int(number) if path.startswith("NV") and number.isdecimal() else 0


def _alike(found: Mapping[str, HostTopology | None]) -> list[tuple[list[str], HostTopology]]:
    """Return hosts together whose GPUs show the same."""
    groups: dict[object, tuple[list[str], HostTopology]] = {}
    for host, one in found.items():
        if one is not None:
            shown = (one.no_gpus, tuple((gpu.name, *_gpu_cells(gpu)) for gpu in one.gpus))
            groups.setdefault(shown, ([], one))[0].append(host)
    return list(groups.values())


def _gpus_text(hosts: Sequence[str], has: HostTopology) -> str:
    where = ", ".join(hosts)
    if not has.gpus:
        return f"{where}: no GPU: {has.no_gpus}."
    names = ", ".join(dict.fromkeys(gpu.name for gpu in has.gpus))
    header = ("", *(f"GPU{gpu.index}" for gpu in has.gpus), "NUMA", "cores")
    count = f"{len(has.gpus)} GPU{'' if len(has.gpus) == 1 else 's'}"
    return "\n".join([f"{where}: {count} ({names})", *aligned([header, *map(_gpu_cells, has.gpus)])])


def _gpu_cells(gpu: HostGpu) -> tuple[str, ...]:
    return (f"GPU{gpu.index}", *gpu.paths, gpu.numa or _NOT_SAID, gpu.cores or _NOT_SAID)


def _cells(host: str, one: Interface) -> tuple[str, ...]:
    speed = _NOT_SAID if one.mbit_per_s is None else f"{one.mbit_per_s:,} Mbit/s"
    return (host, one.name, one.address, speed, "yes" if one.is_infiniband else "no")
