"""Reads what this host has for ranks: cores, memory, and the GPUs that we may use.

Importing this loads no NVML, so it works on any host.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.host.cores import ROOT, memory_limit_bytes, physical_cores, usable_cores

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path
    from types import ModuleType

__all__ = [
    "ComputeProcess",
    "Gpu",
    "compute_processes",
    "default_rank_count",
    "find_gpu",
    "handle_of",
    "has_nvidia_gpu",
    "list_gpus",
    "memory_limit_bytes",
    "memory_of",
    "nvml_open",
    "physical_cores",
    "processes_on",
    "usable_cores",
    "usable_gpus",
    "visible_gpus",
]

VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"
NVIDIA_PCI_VENDOR = "0x10de"


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a MIG device on one.

    Attributes:
        index: NVML's, in PCI bus order; for a MIG device, its GPU's.
        uuid: "GPU-..." or "MIG-...", as CUDA_VISIBLE_DEVICES takes it.
        memory_total_bytes: 0 where the GPU has no memory of its own.
    """

    index: int
    uuid: str
    name: str
    memory_total_bytes: int
    mig: bool

    @property
    def device(self) -> str:
        """Its entry in CUDA_VISIBLE_DEVICES: an index is easier to read, but a MIG device has only its UUID."""
        return self.uuid if self.mig else str(self.index)


@dataclass(frozen=True)
class ComputeProcess:
    """A process of any user that computes on a device.

    Attributes:
        device: an entry of CUDA_VISIBLE_DEVICES.
        pid: its PID on the host, which differs from the one in a container.
        used_bytes: the memory that it holds there; None where the driver does not report it, as in a container.
    """

    device: str
    pid: int
    used_bytes: int | None


def list_gpus(root: Path = ROOT) -> tuple[Gpu, ...]:
    """Return the GPUs of this host, in NVML's order; of a GPU in MIG mode, its MIG devices.

    Runs on: kernel.

    Raises:
        ClusterError: there are GPUs, but NVML cannot report them.
    """
    import pynvml

    try:
        with nvml_open() as nvml:
            return tuple(_gpus(nvml))
    except pynvml.NVMLError_LibraryNotFound:
        return ()
    except pynvml.NVMLError_DriverNotLoaded as error:
        # Login nodes and CUDA images carry the library where there is no GPU.
        if not has_nvidia_gpu(root):
            return ()
        raise _nvml_failed(error) from error
    except pynvml.NVMLError as error:
        raise _nvml_failed(error) from error


def visible_gpus(gpus: Sequence[Gpu] | None = None) -> tuple[str, ...]:
    """Return the devices that we may use, each as an entry of CUDA_VISIBLE_DEVICES.

    What the user or the scheduler set there is the list; entries after an invalid one do not count, as in CUDA.

    Args:
        gpus: what `list_gpus` returned, where the caller has it already.
    """
    known = list_gpus() if gpus is None else tuple(gpus)
    setting = os.environ.get(VISIBLE_VARIABLE)
    if setting is None:
        return tuple(gpu.device for gpu in known)
    found: list[str] = []
    for entry in setting.split(","):
        gpu = find_gpu(entry.strip(), known)
        if gpu is None or gpu.device in found:
            break
        found.append(gpu.device)
    return tuple(found)


def usable_gpus(among: Collection[str] = ()) -> tuple[Gpu, ...]:
    """Return the GPUs that we may use.

    Args:
        among: entries of CUDA_VISIBLE_DEVICES: those of these; empty for all.

    Raises:
        ClusterError: there are GPUs, but NVML cannot report them.
    """
    known = list_gpus()
    visible = visible_gpus(known)
    return tuple(gpu for gpu in known if gpu.device in visible and gpu.device in (among or visible))


def find_gpu(entry: str, gpus: Sequence[Gpu]) -> Gpu | None:
    """Return the GPU that an entry of CUDA_VISIBLE_DEVICES names, or None where it names none, or several.

    Args:
        entry: an index, a UUID or the beginning of one ("GPU-8932f937"), or a MIG device ("MIG-...", also in the older
            form "MIG-GPU-.../1/0").
        gpus: the GPUs to look among.
    """
    if re.fullmatch(r"[0-9]+", entry):
        # For a GPU in MIG mode CUDA takes its first MIG device.
        return next((gpu for gpu in gpus if gpu.index == int(entry)), None)
    if not re.match(r"(GPU|MIG)-[0-9a-fA-F]|MIG-GPU-", entry):
        return None
    matches = [gpu for gpu in gpus if gpu.uuid == entry] or [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
    return matches[0] if len(matches) == 1 else None


def compute_processes(devices: Sequence[str]) -> tuple[ComputeProcess, ...]:
    """Return the processes that compute on these devices; none for a device whose processes NVML does not report.

    Runs on: kernel.

    Args:
        devices: entries of CUDA_VISIBLE_DEVICES, as `visible_gpus` returns them.
    """
    if not devices:
        return ()
    with nvml_open() as nvml:
        return tuple(
            ComputeProcess(device, process.pid, process.usedGpuMemory)
            for device in dict.fromkeys(devices)
            for process in processes_on(nvml, device)
        )


def free_bytes(devices: Sequence[str]) -> dict[str, int]:
    """Return device -> its free memory, of the devices for which NVML reports it.

    Args:
        devices: entries of CUDA_VISIBLE_DEVICES, as `visible_gpus` returns them.
    """
    if not devices:
        return {}
    with nvml_open() as nvml:
        found = {device: _free_bytes(nvml, device) for device in devices}
    return {device: free for device, free in found.items() if free is not None}


def default_rank_count(gpu_count: int, physical_core_count: int) -> int:
    """Return how many ranks to start: one per GPU; with no GPU one per two physical cores, at least 2."""
    return gpu_count or max(2, physical_core_count // 2)


@contextmanager
def nvml_open() -> Iterator[ModuleType]:
    """Open NVML for the length of the block; the block gets nvidia-ml-py."""
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def _gpus(nvml: ModuleType) -> Iterator[Gpu]:
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        if _in_mig_mode(nvml, handle):
            for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
                try:
                    device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
                except nvml.NVMLError_NotFound:
                    continue  # a slot that no MIG device takes
                yield _gpu(nvml, index, device, mig=True)
        else:
            yield _gpu(nvml, index, handle, mig=False)


def _gpu(nvml: ModuleType, index: int, handle: Any, *, mig: bool) -> Gpu:
    try:
        memory_total_bytes = int(memory_of(nvml, handle).total)
    except nvml.NVMLError_NotSupported:
        memory_total_bytes = 0
    return Gpu(index, nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle), memory_total_bytes, mig)


def handle_of(nvml: ModuleType, device: str) -> Any:
    """Return NVML's handle of a device, by its index or its UUID."""
    if device.isdecimal():
        return nvml.nvmlDeviceGetHandleByIndex(int(device))
    return nvml.nvmlDeviceGetHandleByUUID(device)


def memory_of(nvml: ModuleType, handle: Any) -> Any:
    """Return NVML's record of a device's memory: `total`, `free` and `used`, in bytes.

    Of the first version of that record `used` has what the driver keeps for itself too: 615 MiB of an H200, of which
    nvidia-smi says nothing. Drivers before 510 know no other.

    Raises:
        NVMLError: the device does not say it.
    """
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    except nvml.NVMLError_FunctionNotFound:
        return nvml.nvmlDeviceGetMemoryInfo(handle)


def _free_bytes(nvml: ModuleType, device: str) -> int | None:
    try:
        return int(memory_of(nvml, handle_of(nvml, device)).free)
    except nvml.NVMLError:
        # A GPU that shares the host's memory has none of its own.
        return None


def processes_on(nvml: ModuleType, device: str) -> list[Any]:
    """Return NVML's records of the processes that compute on a device: `pid`, and `usedGpuMemory` in bytes or None."""
    try:
        return list(nvml.nvmlDeviceGetComputeRunningProcesses(handle_of(nvml, device)))
    except nvml.NVMLError:
        # Only a warning is lost, and no start should fail for it: old drivers and some MIG devices report no processes.
        return []


def _in_mig_mode(nvml: ModuleType, handle: Any) -> bool:
    try:
        current, _pending = nvml.nvmlDeviceGetMigMode(handle)
    except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound):
        return False
    return bool(current == nvml.NVML_DEVICE_MIG_ENABLE)


def has_nvidia_gpu(root: Path) -> bool:
    """Return whether there is a GPU of NVIDIA's on the PCI bus, whatever its driver knows."""
    for device in (root / "sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text(), (device / "class").read_text()
        except OSError:
            continue
        # PCI class 0x03: a display controller, which every GPU is, one without a display included.
        if vendor.strip() == NVIDIA_PCI_VENDOR and kind.startswith("0x03"):
            return True
    return False


def _nvml_failed(error: Exception) -> ClusterError:
    return ClusterError(
        f"NVML, which knows the GPUs of this host, must work. Received: {error}. "
        "Run `nvidia-smi`, which says the same, and mend the driver; or pass --gpus none to use the cores."
    )
