"""Wraps the methods of Keras that train, for cells with `--memory`; in others they are Keras's own.

Runs on: every rank.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import keras

from jupyter_ddl.engine import rank_state, run_context
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.patching import Layer, patch
from jupyter_ddl.memory import mixed, remat
from jupyter_ddl.memory.unused import Trained
from jupyter_ddl.training import parts_of_batches
from jupyter_ddl.training.step_settings import in_less_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.memory_options import MemoryOptions


def install() -> None:
    """Wrap the methods. Safe to call twice."""
    for name in ("fit", "train_on_batch"):
        patch(keras.Model, name, _train, Layer.MEMORY)


def _train(stock: Callable[..., Any], model: Any, *args: Any, **kwargs: Any) -> Any:
    options = run_context.options().memory
    if options is None or not model.compiled:
        return stock(model, *args, **kwargs)
    rank_state.here().part(Trained).is_done = True
    is_of_jax = keras.config.backend() == "jax"
    if options.shard_all and not is_of_jax:
        raise InvalidInput(
            "--memory shard-all shards the models of loops of PyTorch's, and Keras models on JAX.",
            f"a training of {model.name} by Keras on {keras.config.backend()}",
            "Write shard-optimizer, or train on KERAS_BACKEND=jax.",
        )
    _prepare(model, options)
    if is_of_jax:
        # Its compiled step shards by itself.
        return stock(model, *args, **kwargs)
    if options.accumulate > 1:
        parts_of_batches.check(model)
    with in_less_memory(options.accumulate, shards_state=options.shard_optimizer), _kept(on_host=options.host):
        return stock(model, *args, **kwargs)


def _kept(*, on_host: bool) -> AbstractContextManager[None]:
    """Return where what the backward pass needs is kept in the block.

    Raises:
        InvalidInput: Keras does not run on PyTorch, which has hooks for it.
    """
    if not on_host:
        return nullcontext()
    if keras.config.backend() != "torch":
        raise InvalidInput(
            "--memory host keeps in host memory what PyTorch's models need, and Keras's on PyTorch.",
            f"a training by Keras on {keras.config.backend()}",
            "Leave it out, or train on KERAS_BACKEND=torch.",
        )
    from jupyter_ddl.memory.host_memory import activations_on_host

    return activations_on_host()


def _prepare(model: Any, options: MemoryOptions) -> None:
    """Change a model as the options say; nothing where that was done before.

    Raises:
        InvalidInput: the model has no weights yet.
    """
    if not options.mixed and not options.remat:
        return
    if not model.built:
        raise InvalidInput(
            "--memory mixed and remat change a model that has its layers and weights when training begins.",
            f"{model.name}, which is not built",
            "Begin it with keras.Input, or call model.build(input_shape).",
        )
    if options.mixed:
        mixed.apply(model)
    if options.remat:
        remat.apply(model)
