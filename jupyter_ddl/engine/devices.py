"""Gives each rank its device and its share of the cores, before TensorFlow is imported.

TensorFlow reads these variables once, when it starts its first device: `pin` must come before the import, and its
settings hold for the life of the process. TF_NUM_INTRAOP_THREADS is obeyed although `tf.config.threading` reads 0 then
(measured with TensorFlow 2.21: as many compute threads, and as much CPU time, as it says).
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.core_claims import claim
from jupyter_ddl.host.cores import cores_of, keep_to, share_of_cores
from jupyter_ddl.host.topology import find_gpu, list_gpus, visible_gpus
from jupyter_ddl.paths import BIND_VARIABLE, DEVICE_VARIABLE, JOB_GPUS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from jupyter_ddl.engine.world import World

__all__ = ["Pinned", "configure_tensorflow", "keep_to_share", "pin", "share_of_cores"]


_CORES = "CPU"


@dataclass(frozen=True)
class Pinned:
    """What a rank computes with.

    Attributes:
        device: for people, e.g. "GPU 2 (NVIDIA H200)" or "CPU".
        threads: TensorFlow's threads on this rank.
    """

    device: str
    threads: int


def pin(
    devices: Sequence[str], local_rank: int, local_size: int, threads: int | None = None, *, for_torch: bool = False
) -> Pinned:
    """Make one device visible to this rank and no other, and set the number of its threads.

    A program that torchrun starts sees all GPUs of its host, and takes the one whose number is its LOCAL_RANK. Ranks
    of PyTorch do too, and `cuda` without a number is their own.

    Runs on: every rank, before TensorFlow is imported.

    Args:
        devices: the CUDA_VISIBLE_DEVICES entry of each local rank; empty where the ranks compute on the cores.
        local_rank: this rank's number on this host.
        local_size: ranks on this host.
        threads: TensorFlow's threads; None for what the user set in TF_NUM_INTRAOP_THREADS, else this rank's share of
            the cores.
        for_torch: the rank's framework is PyTorch.

    Raises:
        InvalidInput: there is no device for this local rank.
    """
    if devices and local_rank >= len(devices):
        raise InvalidInput(
            "Each rank on a host must have a device.",
            f"local_rank={local_rank}, devices={','.join(devices)}",
            f"Start at most {len(devices)} ranks on a host.",
        )
    own = devices[local_rank] if devices else ""
    sees_all = for_torch and len(set(devices)) == len(devices)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(devices) if sees_all else own
    os.environ[DEVICE_VARIABLE] = own
    if sees_all and local_rank > 0:
        import_hooks.when_imported("torch.cuda", partial(_choose_in_torch, local_rank))
        import_hooks.when_imported("tensorflow", partial(_choose_in_tensorflow, local_rank))
    # CUDA's own order puts the fastest GPU first; indices must be those of NVML and nvidia-smi.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    count = _set_threads(threads, share_of_cores(local_rank, local_size))
    return Pinned(_label(devices[local_rank]) if devices else _CORES, count)


def keep_to_share(world: World, pinned: Pinned) -> None:
    """Keep this rank, if it has no GPU, to its share of the cores, unless it has more threads than that.

    Otherwise Linux sometimes puts, for minutes, the threads in which ranks wait for each other on one core and those
    that compute on the other: a training then takes twice the time (docs/performance.md). With a GPU the site decides
    which cores are near it. Where ranks of another cluster, whosever it is, keep to cores of these, none of these
    ranks does: Linux can then move them to cores that are idle.

    Runs on: every rank. Collective: every rank of a host must call this.

    Args:
        world: the rank's.
        pinned: what `pin` returned.
    """
    if pinned.device != _CORES or world.local_size == 1:
        return
    wanted = os.environ.get(BIND_VARIABLE, "")
    cores = cores_of(world.local_rank, world.local_size)
    if wanted == "0" or pinned.threads > len(cores):
        cores = set()
    everyones = world.node.gather(cores)
    is_free = world.node.bcast(None if everyones is None else _claimed(set().union(*everyones)))
    if cores and (is_free or wanted):
        keep_to(cores)


def shared(devices: Sequence[str], local_rank: int, pinned: Pinned) -> str | None:
    """Return the GPU that this rank shares with another one, for people; None where it shares none."""
    return pinned.device if devices and devices.count(devices[local_rank]) > 1 else None


def of_this_host(local_size: int, *, oversubscribe: bool) -> list[str]:
    """Return the device of each local rank: this host's GPUs in their order, none where it has none.

    Runs on: every rank of a cluster on several hosts.

    Args:
        local_size: ranks on this host.
        oversubscribe: several ranks may share a GPU.

    Raises:
        InvalidInput: there are more ranks than GPUs, and they may not share one.
        ClusterError: NVML is there but does not work.
    """
    gpus = _of_the_job()
    if gpus and local_size > len(gpus) and not oversubscribe:
        raise InvalidInput(
            "Ranks must not outnumber the GPUs of their host.",
            f"{local_size} ranks, {len(gpus)} GPUs",
            f"Give this host at most {len(gpus)} slots, or pass --oversubscribe.",
        )
    return [gpus[rank % len(gpus)] for rank in range(local_size)] if gpus else []


def _of_the_job() -> Sequence[str]:
    """Return the GPUs of this host that we may use; of a batch job that names its own ones, those.

    Where no more are visible than the job has, these are them, whatever their numbers: a site may hide all others.
    """
    known = list_gpus()
    visible = visible_gpus(known)
    named = json.loads(os.environ.get(JOB_GPUS_VARIABLE, "{}")).get(socket.gethostname().partition(".")[0], [])
    if not named or len(visible) <= len(named):
        return visible
    kept = [gpu.device for index in named if (gpu := find_gpu(index, known)) is not None and gpu.device in visible]
    return kept or visible


def configure_tensorflow(threads: int) -> None:
    """Tell TensorFlow's Python side the number of threads too, so that `tf.config.threading` does not read 0.

    Does nothing where the user's code has set the numbers before, or has started TensorFlow's devices, which then
    follow the variables that `pin` set.

    Runs on: every rank, after TensorFlow is imported.
    """
    import tensorflow as tf

    threading = tf.config.threading
    try:
        if not threading.get_intra_op_parallelism_threads():
            threading.set_intra_op_parallelism_threads(threads)
        if not threading.get_inter_op_parallelism_threads():
            threading.set_inter_op_parallelism_threads(_number("TF_NUM_INTEROP_THREADS") or threads)
    except RuntimeError:
        # "cannot be modified after initialization"
        return


def _choose_in_torch(number: int, cuda: ModuleType) -> None:
    """Have CUDA begin, when PyTorch begins it, with a device other than the first, unless the program has chosen."""

    def choose() -> None:
        if cuda.current_device() == 0:
            cuda.set_device(number)

    # Source: torch 2.11, torch/cuda/__init__.py: calls before the first use of CUDA wait for it.
    cuda._lazy_call(choose)


def _choose_in_tensorflow(number: int, tensorflow: ModuleType) -> None:
    """Keep TensorFlow, which a rank of PyTorch imports, to the rank's own device."""
    devices = tensorflow.config.list_physical_devices("GPU")
    if number < len(devices):
        tensorflow.config.set_visible_devices(devices[number], "GPU")


def _claimed(cores: set[int]) -> bool:
    return not cores or claim(cores)


def _set_threads(threads: int | None, share: int) -> int:
    """Set the variables that say how many threads to use, and return the number."""
    count = threads or _number("TF_NUM_INTRAOP_THREADS") or share
    os.environ["TF_NUM_INTRAOP_THREADS"] = str(count)
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", str(count))
    os.environ.setdefault("OMP_NUM_THREADS", str(count))
    return count


def _number(variable: str) -> int | None:
    """Return a variable's value where it is a number above 0."""
    setting = os.environ.get(variable, "")
    return int(setting) if setting.isdecimal() and int(setting) > 0 else None


def _label(device: str) -> str:
    name = _nvml_name(device)
    return f"GPU {device} ({name})" if name else f"GPU {device}"


def _nvml_name(device: str) -> str | None:
    """Return the GPU's product name; None where NVML cannot tell, since a label is worth no failure."""
    import pynvml

    if device.isdecimal() and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return None  # CUDA's index is not NVML's then
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    try:
        if device.isdecimal():
            handle = pynvml.nvmlDeviceGetHandleByIndex(int(device))
        else:
            handle = pynvml.nvmlDeviceGetHandleByUUID(device)
        return str(pynvml.nvmlDeviceGetName(handle))
    except pynvml.NVMLError:
        return None
    finally:
        pynvml.nvmlShutdown()
