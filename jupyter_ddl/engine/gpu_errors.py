"""Says what an error of CUDA means on a rank: who holds the GPU's memory, and whether the process can still use it.

Runs on: every rank. Imports no framework.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_ddl.engine.gpu import own_device
from jupyter_ddl.host.topology import compute_processes, handle_of, memory_of, nvml_open
from jupyter_ddl.protocol.number_texts import memory_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.host.topology import ComputeProcess

# Of PyTorch, TensorFlow and JAX: the class, and words of its text where other errors have that class too.
_OUT_OF_MEMORY = (
    ("OutOfMemoryError", ""),
    ("ResourceExhaustedError", "OOM"),
    ("XlaRuntimeError", "RESOURCE_EXHAUSTED"),
    ("JaxRuntimeError", "RESOURCE_EXHAUSTED"),
)
# What CUDA refuses all further calls of the process after.
# Source: docs.nvidia.com/cuda/cuda-runtime-api, "Data types used by CUDA Runtime": "any further CUDA work will return
# the same error. To continue using CUDA, the process must be terminated and relaunched."
_FATAL = (
    "device-side assert triggered",
    "an illegal memory access was encountered",
    "misaligned address",
    "unspecified launch failure",
    "an illegal instruction was encountered",
    "hardware stack error",
)


def advice(error: BaseException, text: str) -> str | None:
    """Return what to tell of an error of CUDA; None of any other.

    Args:
        error: what the program raised.
        text: its text.
    """
    name = type(error).__name__
    if any(name == of and word in text for of, word in _OUT_OF_MEMORY):
        return _who_holds_memory()
    if "CUDA" in text and any(words in text for words in _FATAL):
        return (
            "After this error CUDA refuses every call of this process, also in the next cell: %ddl restart gives new "
            "ranks. CUDA reports it late: %ddl restart --env CUDA_LAUNCH_BLOCKING=1 makes the traceback name the line."
        )
    if "invalid device ordinal" in text:
        return (
            "A rank sees its own GPU alone, as cuda:0, unless the ranks' framework is PyTorch: start them with "
            "--framework torch for programs that take the GPU whose number is LOCAL_RANK."
        )
    return None


def _who_holds_memory() -> str | None:
    """Return whose the memory in use is, on this rank's GPU; None where NVML does not say it."""
    device = own_device()
    import pynvml

    with suppress(pynvml.NVMLError), nvml_open() as nvml:
        memory = memory_of(nvml, handle_of(nvml, device))
        told = f"GPU {device} has {memory_size(int(memory.total))}, of which {memory_size(int(memory.used))} are in use"
        return f"{told}{_shares(compute_processes([device]))}. A smaller batch, or a variable less, may fit."
    return None


def _shares(processes: Sequence[ComputeProcess]) -> str:
    """Return whose processes hold how much, where the driver says it: in a container it knows other PIDs."""
    own = next((one.used_bytes for one in processes if one.pid == os.getpid()), None)
    others = len(processes) - 1
    if own is None:
        return ""
    by_others = f", by {others} other {'process' if others == 1 else 'processes'} the rest" if others else ""
    return f": {memory_size(own)} by this rank{by_others}"
