"""Reads this rank's own GPU by NVML, MIG devices too.

Runs on: every rank, in the sampler's thread.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.link_rates import Rates
from jupyter_ddl.host.topology import handle_of, memory_of
from jupyter_ddl.paths import DEVICE_VARIABLE
from jupyter_ddl.protocol.readings import GpuReading

if TYPE_CHECKING:
    from collections.abc import Callable

_MIG = "MIG-"
_KIB = 1024
# Source: nvml.h, nvmlFieldValue_t: of a field of NVLinks this scope means all of them.
_ALL_LINKS = 0xFFFFFFFF


def own_device() -> str:
    """Return this rank's own device, as CUDA_VISIBLE_DEVICES names it; "" where it computes on the cores."""
    return os.environ.get(DEVICE_VARIABLE, os.environ.get("CUDA_VISIBLE_DEVICES", ""))


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
        self._rates = Rates()

    @classmethod
    def of_this_rank(cls) -> Gpu | None:
        """Return the device that is visible to this process; None where there is none that NVML knows."""
        device = own_device()
        if not device or (device.isdecimal() and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"):
            return None  # CUDA's index is not NVML's then
        import pynvml

        with suppress(pynvml.NVMLError):
            return cls(device)
        return None

    def read(self) -> GpuReading:
        """Return the device's readings; one that fails is None."""
        nvml, handle = self._nvml, self._handle
        memory = self._ask(lambda: memory_of(nvml, handle))
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
            **self._rates.take(self._nvlink_bytes()),
        )

    def _nvlink_bytes(self) -> dict[str, int]:
        """Return how many bytes all NVLinks have carried; nothing where there are none, or the GPU does not say it."""
        nvml, handle = self._nvml, self._handle
        fields = {
            "nvlink_received_bytes_per_s": nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
            "nvlink_sent_bytes_per_s": nvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
        }
        wanted = [(field, _ALL_LINKS) for field in fields.values()]
        found = self._ask(lambda: nvml.nvmlDeviceGetFieldValues(handle, wanted)) or ()
        read = zip(fields, found, strict=False)
        return {name: _KIB * one.value.ullVal for name, one in read if one.nvmlReturn == nvml.NVML_SUCCESS}

    def _ask(self, question: Callable[[], Any]) -> Any:
        with suppress(self._nvml.NVMLError):
            return question()
        return None
