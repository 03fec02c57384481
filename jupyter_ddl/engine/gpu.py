"""Reads this rank's own GPU by NVML, MIG devices too.

Runs on: every rank, in the sampler's thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.topology import handle_of
from jupyter_ddl.protocol.events import GpuReading

if TYPE_CHECKING:
    from collections.abc import Callable

_MIG = "MIG-"


class Gpu:
    """One device.

    Args:
        device: as CUDA_VISIBLE_DEVICES names it: an index, a GPU's or a MIG device's UUID.
    """

    def __init__(self, device: str) -> None:
        import pynvml

        self._nvml = pynvml
        pynvml.nvmlInit()
        self._handle: Any = handle_of(pynvml, device)
        self._is_mig = device.startswith(_MIG)

    @classmethod
    def of_this_rank(cls) -> Gpu | None:
        """Return the device that is visible to this process; None where there is none that NVML knows."""
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if not device or (device.isdecimal() and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"):
            return None  # CUDA's index is not NVML's then
        import pynvml

        with suppress(pynvml.NVMLError):
            return cls(device)
        return None

    def read(self) -> GpuReading:
        """Return the device's readings; one that fails is None."""
        nvml, handle = self._nvml, self._handle
        memory = self._ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        used, total = (int(memory.used), int(memory.total)) if memory is not None else (None, None)
        if self._is_mig:
            return GpuReading(gpu_memory_used_bytes=used, gpu_memory_total_bytes=total)
        use = self._ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        milliwatts = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
        celsius = self._ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
        return GpuReading(
            gpu_pct=None if use is None else float(use.gpu),
            gpu_memory_used_bytes=used,
            gpu_memory_total_bytes=total,
            gpu_watts=None if milliwatts is None else milliwatts / 1000,
            gpu_celsius=None if celsius is None else float(celsius),
        )

    def _ask(self, question: Callable[[], Any]) -> Any:
        with suppress(self._nvml.NVMLError):
            return question()
        return None
