"""Reads how much memory each process holds on the GPUs of this host.

Runs on: lease, witness, a script's terminal and the relays beside its ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.topology import list_gpus, processes_on

if TYPE_CHECKING:
    from collections.abc import Mapping


class GpuMemory:
    """The memory of this host's GPUs, by process.

    NVML stays open: opening it takes up to a second where no process keeps the driver awake.
    """

    def __init__(self) -> None:
        self._nvml: Any = None
        self._devices: tuple[str, ...] = ()

    def held_bytes(self) -> Mapping[int, int]:
        """Return PID -> what it holds on all GPUs.

        Nothing where NVML does not work, or does not say it, as in a container that has PIDs of its own.
        """
        import pynvml

        found: dict[int, int] = {}
        try:
            if self._nvml is None:
                pynvml.nvmlInit()
                self._nvml, self._devices = pynvml, tuple(gpu.device for gpu in list_gpus())
            for device in self._devices:
                for process in processes_on(self._nvml, device):
                    found[process.pid] = found.get(process.pid, 0) + (process.usedGpuMemory or 0)
        except (pynvml.NVMLError, OSError):
            # The driver is gone, or this process can open no more files.
            return {}
        return found
