"""Trains Keras on JAX with `--auto --batch global`: one program over all processes' devices, by `keras.distribution`.

A model whose optimizer exchanges (`jupyter_ddl.keras`, and `--batch per-rank`) is trained by `training`, as on the
other backends.

A step on JAX is a function of its state, so nothing of ours runs in it. Variables are arrays of all processes, batches
are spread over them, and JAX's compiler adds the exchange: a step computes what it computes in one process.

| module | owns |
|---|---|
| `processes` | JAX's processes, Keras's distribution, and the seed of a cell with `--auto` |
| `batches` | how a batch is spread over the ranks; ranks whose batches differ are found |
| `arrays` | variables as arrays of all processes; weights that differ are found |
| `sharding` | which variables `--memory shard-all` divides, and how |
| `wrapped_methods` | what is wrapped of Keras, and which calls are refused |
| `saving` | rank 0 writes a model's file, and waits for none |
| `callbacks` | which callbacks a rank runs; what a training reports |

Runs on: every rank.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import import_hooks
from jupyter_ddl.protocol.cell_options import GLOBAL
from jupyter_ddl.protocol.memory_options import MIXED, REMAT, SHARD_ALL

if TYPE_CHECKING:
    from jupyter_ddl.engine.cells import Cell
    from jupyter_ddl.protocol.cell_options import AutoOptions
    from jupyter_ddl.protocol.memory_options import MemoryOptions

JAX = "jax"


def prepare(running: Cell) -> None:
    """Prepare this rank for a cell: now, or when it imports Keras, where that is on JAX."""
    if running.options.auto is not None and os.environ.get("KERAS_BACKEND") == JAX and find_spec("keras") is not None:
        # The rank may still be importing it, in another thread, for which the statement waits: Keras keeps a
        # distribution for one thread.
        import keras  # noqa: F401
    import_hooks.when_imported("keras", lambda keras: _begin(keras.config.backend(), running))


def _begin(backend: str, running: Cell) -> None:
    """Begin a cell, or the import of Keras in it.

    Raises:
        InvalidInput: the cell asks for what Keras on JAX has not.
    """
    from jupyter_ddl.engine import run_context

    if backend != JAX or run_context.current() is not running:
        return
    memory = running.options.memory
    _check_memory(memory, running.options.auto)
    from jupyter_ddl.jax_training import batches, processes

    batches.begin()
    processes.begin(running.options.auto, shards=memory is not None and memory.shard_all)


def _check_memory(memory: MemoryOptions | None, auto: AutoOptions | None) -> None:
    if memory is None:
        return
    if memory.accumulate > 1 or memory.shard_optimizer or memory.host:
        raise InvalidInput(
            f"With Keras on JAX --memory takes {REMAT}, {MIXED} and {SHARD_ALL}; its other words are for Keras on "
            "TensorFlow and PyTorch.",
            f"--memory {memory}, with Keras on JAX",
            f"Write --memory {SHARD_ALL}, or gradient_accumulation_steps of the optimizer (docs/memory.md).",
        )
    if memory.shard_all and (auto is None or auto.batch != GLOBAL):
        raise InvalidInput(
            "--memory shard-all shards the model of one program over all ranks, with Keras on JAX.",
            "--memory shard-all without --auto --batch global",
            "Add --auto --batch global.",
        )
