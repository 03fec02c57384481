"""Has the frameworks of this rank keep to its share of a GPU's memory, where its site gives it one.

Each framework raises its own error of no memory then, in the cell that asked for too much. What a program takes beside
them (its own CUDA code, a setting of its own that overrules these) the site's watch sees, `host.memory_watch`.

Runs on: every rank, before a framework is imported.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.host import import_hooks
from jupyter_ddl.host.topology import find_gpu, list_gpus

if TYPE_CHECKING:
    from types import ModuleType

# What CUDA, its libraries and NCCL hold beside a framework's own allocator, about: 621 MiB of an H200 were CUDA's.
BESIDE_BYTES = 2**30


def keep_within(share_bytes: int, device: str) -> None:
    """Set what TensorFlow, PyTorch and JAX may allocate of the rank's GPU.

    Args:
        share_bytes: what the rank may hold in all, above `BESIDE_BYTES`.
        device: its GPU, as CUDA_VISIBLE_DEVICES names it; "" where it computes on the cores.
    """
    gpu = find_gpu(device, list_gpus()) if device else None
    if gpu is None:
        return
    allowed_bytes = share_bytes - BESIDE_BYTES
    fraction = allowed_bytes / gpu.memory_total_bytes
    # Source: docs.jax.dev, "GPU memory allocation": without preallocation the fraction is the most that JAX takes.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{fraction:.4f}"
    import_hooks.when_imported("torch.cuda", partial(_keep_torch, fraction))
    import_hooks.when_imported("tensorflow", partial(_keep_tensorflow, allowed_bytes))


def _keep_torch(fraction: float, cuda: ModuleType) -> None:
    # Source: torch 2.11, torch/cuda/__init__.py: calls before the first use of CUDA wait for it, in their order.
    cuda._lazy_call(lambda: cuda.set_per_process_memory_fraction(fraction))


def _keep_tensorflow(allowed_bytes: int, tensorflow: ModuleType) -> None:
    """Give TensorFlow a logical device with a limit in place of each GPU that it sees; its memory grows up to that."""
    config = tensorflow.config
    for device in config.get_visible_devices("GPU"):
        limit = config.LogicalDeviceConfiguration(memory_limit=allowed_bytes // 2**20)
        config.set_logical_device_configuration(device, [limit])
