"""Fits models into a device's memory: says beforehand what a rank needs, and makes trainings need less.

    jupyter_ddl.memory.advise(model, batch)     what a rank needs, and what would make it fit
    jupyter_ddl.memory.activations_on_host()    PyTorch: what the backward pass needs, kept in host memory
    jupyter_ddl.memory.state_on_host(optimizer) PyTorch: an optimizer's state, kept in host memory between steps

| module | owns |
|---|---|
| `advising`, `advice` | `advise`, and what it returns |
| `device` | what a rank's device has |
| `keras_models`, `torch_modules`, `measured` | the parts of a model's memory, and steps to measure |
| `tensorflow_steps`, `torch_steps`, `jax_steps` | what a step keeps for its backward pass, and how long it takes |
| `wrapped_methods`, `unused` | `--memory`: which methods of Keras's it wraps; what it says where it had no effect |
| `host_memory` | activations and an optimizer's state of PyTorch's in host memory |
| `installation`, `called_modules` | `--memory` on models of PyTorch's that a cell calls: `remat`, `mixed`, `host` |
| `sharded_models`, `parts_of_models`, `saved_parts` | models of PyTorch's loops sharded over the ranks |
| `remat`, `mixed` | recomputation of activations, and half precision, on a model of Keras's that is there |

Runs on: every rank, or any process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_ddl.memory.advice import Advice, Need, Remedy
from jupyter_ddl.memory.advising import advise

if TYPE_CHECKING:
    from jupyter_ddl.memory.host_memory import activations_on_host, state_on_host

__all__ = ["Advice", "Need", "Remedy", "activations_on_host", "advise", "state_on_host"]


def __getattr__(name: str) -> Any:
    # These import PyTorch.
    if name in ("activations_on_host", "state_on_host"):
        from jupyter_ddl.memory import host_memory

        return getattr(host_memory, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
