"""Reads how the GPUs of this host are joined: by NVLink, by PCIe, and to which NUMA node and cores.

Importing this loads no NVML.

Source: NVML API Reference, "NvLink Methods" and nvmlGpuTopologyLevel_t; `nvidia-smi topo -m` for the words.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.cores import ROOT
from jupyter_ddl.host.topology import has_nvidia_gpu, nvml_open
from jupyter_ddl.protocol.host_topology import ITSELF, UNKNOWN, HostGpu
from jupyter_ddl.protocol.rank_sets import compact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from types import ModuleType

_BITS = 64
# Linux has up to 1,024 NUMA nodes.
_NODE_WORDS = 16


@dataclass(frozen=True)
class _Device:
    """What NVML says of one GPU.

    Attributes:
        nvlinks: the PCI address of another GPU -> the number of its NVLinks that lead there.
        switch_links: the number of its NVLinks that lead to an NVSwitch, over which every other GPU there is reached.
    """

    handle: Any
    pci_address: str
    nvlinks: Counter[str]
    switch_links: int


def gpus_and_links(root: Path = ROOT) -> tuple[tuple[HostGpu, ...], str | None]:
    """Return the GPUs of this host with the paths between them; where there are none, the reason as a clause.

    Runs on: every host of the ranks, never a kernel.

    Args:
        root: stands for / in tests.
    """
    import pynvml

    try:
        with nvml_open() as nvml:
            found = _gpus(nvml)
    except pynvml.NVMLError_LibraryNotFound:
        return (), "NVML, the library of NVIDIA's driver (libnvidia-ml.so.1), is not there"
    except pynvml.NVMLError_DriverNotLoaded as error:
        # Login nodes and CUDA images carry the library where there is no GPU.
        return (), _failed(error) if has_nvidia_gpu(root) else "NVML is there, but no NVIDIA GPU on the PCI bus"
    except pynvml.NVMLError as error:
        return (), _failed(error)
    return found, None if found else "NVML finds none"


def _failed(error: Exception) -> str:
    return f"NVML, which knows the GPUs, fails: {error}. `nvidia-smi` there says more"


def _gpus(nvml: ModuleType) -> tuple[HostGpu, ...]:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    devices = [_device(nvml, handle) for handle in handles]
    return tuple(
        HostGpu(
            index,
            _text(nvml.nvmlDeviceGetName(device.handle)),
            device.pci_address,
            tuple(_path(nvml, device, other) for other in devices),
            _numbers(_ask(nvml, partial(_near_nodes, nvml, device.handle))),
            _numbers(_ask(nvml, partial(_near_cores, nvml, device.handle))),
        )
        for index, device in enumerate(devices)
    )


def _device(nvml: ModuleType, handle: Any) -> _Device:
    pci = _ask(nvml, lambda: nvml.nvmlDeviceGetPciInfo(handle))
    ends = [end for link in range(nvml.NVML_NVLINK_MAX_LINKS) if (end := _end_of(nvml, handle, link)) is not None]
    switch_links = ends.count("")
    return _Device(handle, _address(pci), Counter(end for end in ends if end), switch_links)


def _end_of(nvml: ModuleType, handle: Any, link: int) -> str | None:
    """Return the PCI address of what an NVLink leads to, "" for an NVSwitch; None for a link that is not in use."""
    if _ask(nvml, lambda: nvml.nvmlDeviceGetNvLinkState(handle, link)) != nvml.NVML_FEATURE_ENABLED:
        return None
    kind = _ask(nvml, lambda: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
    if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return ""
    # "" would be a switch.
    return _address(_ask(nvml, lambda: nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link))) or None


def _path(nvml: ModuleType, one: _Device, other: _Device) -> str:
    """Return how two GPUs are joined, by the quickest path that there is."""
    if one is other:
        return ITSELF
    nvlinks = one.nvlinks[other.pci_address] + min(one.switch_links, other.switch_links)
    if nvlinks:
        return f"NV{nvlinks}"
    level = _ask(nvml, lambda: nvml.nvmlDeviceGetTopologyCommonAncestor(one.handle, other.handle))
    return {
        # Two GPUs on one board: the board has a switch.
        nvml.NVML_TOPOLOGY_INTERNAL: "PIX",
        nvml.NVML_TOPOLOGY_SINGLE: "PIX",
        nvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
        nvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
        nvml.NVML_TOPOLOGY_NODE: "NODE",
        nvml.NVML_TOPOLOGY_SYSTEM: "SYS",
    }.get(level, UNKNOWN)


def _near_nodes(nvml: ModuleType, handle: Any) -> Sequence[int]:
    words: Sequence[int] = nvml.nvmlDeviceGetMemoryAffinity(handle, _NODE_WORDS, nvml.NVML_AFFINITY_SCOPE_NODE)
    return words


def _near_cores(nvml: ModuleType, handle: Any) -> Sequence[int]:
    # Those that are switched off too: the mask has a bit for each.
    words: Sequence[int] = nvml.nvmlDeviceGetCpuAffinity(handle, -(-os.sysconf("SC_NPROCESSORS_CONF") // _BITS))
    return words


def _numbers(words: Sequence[int] | None) -> str:
    """Return the numbers of the bits that are set, as "0-31"."""
    return compact(_set_bits(words or ()))


def _set_bits(words: Iterable[int]) -> Iterable[int]:
    return (at * _BITS + bit for at, word in enumerate(words) for bit in range(_BITS) if word >> bit & 1)


def _address(pci: Any) -> str:
    """Return a PCI address as Linux writes it; empty where NVML did not say."""
    return "" if pci is None else _text(pci.busId).lower()


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _ask(nvml: ModuleType, question: Callable[[], Any]) -> Any:
    """Return an answer of NVML's; None where the GPU, or its driver, has none."""
    with suppress(nvml.NVMLError):
        return question()
    return None
