"""Gives the parts of a Keras model's memory, and its steps to be measured, on each of Keras's backends.

Runs on: every rank, or any process.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.memory import mixed, remat

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROBE = 8
_ON_JAX = {"accumulate": "smaller batches, and gradient_accumulation_steps of the optimizer"}


class KerasSubject:
    """A Keras model whose steps are measured.

    Args:
        model: built; compiled for its own loss and optimizer.
        given: arrays to take samples from: x, or (x, y), or (x, y, sample_weight); None to make some by the model's
            inputs.

    Raises:
        InvalidInput: the model has no weights yet; or no arrays are given, and its inputs do not say their shapes.
    """

    def __init__(self, model: Any, given: Any) -> None:
        if not model.built:
            raise InvalidInput(
                "advise measures a model that has its weights.",
                f"{model.name}, which is not built",
                "Begin it with keras.Input, or call model.build(input_shape).",
            )
        # JAX's backward pass holds the weights too, whatever the batch.
        self.holds_weights = keras.config.backend() == "jax"
        self.is_of_torch = keras.config.backend() == "torch"
        self.hints = _ON_JAX if self.holds_weights else {}
        self.shards_all = self.holds_weights
        self._model = model
        self._given = given if given is None or isinstance(given, tuple) else (given,)
        self.weights_bytes = sum(map(_bytes, model.variables))
        self.gradients_bytes = sum(map(_bytes, model.trainable_variables))
        self.optimizer_bytes = int(slots_of(model.optimizer) * self.gradients_bytes)

    def batch(self, samples: int) -> Any:
        """Return x, or x and more."""
        if self._given is None:
            return (keras.tree.map_structure(partial(_made, samples=samples), _inputs_of(self._model)),)
        return keras.tree.map_structure(
            lambda part: None if part is None else np.asarray(part)[np.arange(samples) % len(part)], self._given
        )

    def kept_bytes(self, batch: Any) -> tuple[float, bool]:
        """Return what a step keeps."""
        with self._state_kept():
            if keras.config.backend() == "tensorflow":
                from jupyter_ddl.memory import tensorflow_steps

                return tensorflow_steps.kept_bytes(self._model, self._loss, batch)
            if keras.config.backend() == "jax":
                from jupyter_ddl.memory import jax_steps

                return jax_steps.kept_bytes(self._model, self._stateless_loss, batch)
            from jupyter_ddl.memory import torch_steps

            return torch_steps.kept_bytes(self._tensors(), self._loss, batch)

    def seconds(self, batch: Any, repetitions: int) -> list[float]:
        """Return the times of some steps."""
        with self._state_kept():
            if keras.config.backend() == "tensorflow":
                from jupyter_ddl.memory import tensorflow_steps

                return tensorflow_steps.seconds(self._model, self._loss, batch, repetitions)
            if keras.config.backend() == "jax":
                from jupyter_ddl.memory import jax_steps

                return jax_steps.seconds(self._model, self._stateless_loss, batch, repetitions)
            from jupyter_ddl.memory import torch_steps

            return torch_steps.seconds(self._tensors(), self._loss, batch, repetitions)

    def changes(self) -> dict[str, AbstractContextManager[Any]]:
        """Return half precision and recomputation."""
        return {"mixed": mixed.applied(self._model), "remat": remat.applied(self._model)}

    def _loss(self, batch: Any) -> Any:
        x, y, weight = (*batch, None, None)[:3]
        outputs = self._model(x, training=True)
        if y is not None and self._model.compiled:
            return self._model.compute_loss(x=x, y=y, y_pred=outputs, sample_weight=weight)
        return _mean_of(outputs)

    def _stateless_loss(self, trained: Any, others: Any, batch: Any) -> Any:
        outputs, _ = self._model.stateless_call(trained, others, batch[0], training=True)
        return _mean_of(outputs)

    def _tensors(self) -> list[Any]:
        return [variable.value for variable in self._model.variables]

    @contextmanager
    def _state_kept(self) -> Iterator[None]:
        """Give the model back the statistics and random states that it has, however the block ends."""
        if keras.config.backend() == "torch":
            from jupyter_ddl.memory import torch_steps

            put_back = torch_steps.keeping_state(self._tensors())
        else:
            before = [(variable, np.asarray(variable)) for variable in self._model.non_trainable_variables]
            put_back = partial(_assign_all, before)
        try:
            yield
        finally:
            put_back()


def slots_of(optimizer: Any) -> float:
    """Return how many numbers of state an optimizer has for each weight; 2, as Adam, where there is none.

    A new one of its kind is built for one weight, and what it makes of that weight's size is counted.
    """
    if optimizer is None:
        return 2.0
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    plain = getattr(inner, "__class__", type(inner))
    new = plain.from_config(inner.get_config())
    new.build([keras.Variable(np.zeros((_PROBE, _PROBE), "float32"))])
    return float(sum(math.prod(variable.shape) for variable in new.variables if len(variable.shape)) / _PROBE**2)


def _assign_all(before: list[tuple[Any, Any]]) -> None:
    for variable, value in before:
        variable.assign(value)


def _bytes(variable: Any) -> int:
    size = np.dtype(np.float32 if variable.dtype == "bfloat16" else variable.dtype).itemsize
    return int(math.prod(variable.shape) * (2 if variable.dtype == "bfloat16" else size))


def _mean_of(outputs: Any) -> Any:
    return sum(keras.ops.mean(keras.ops.cast(output, "float32")) for output in keras.tree.flatten(outputs))


def _inputs_of(model: Any) -> Any:
    structure = getattr(model, "_inputs_struct", None)
    if structure is not None:
        return structure
    # A Sequential model.
    inputs = getattr(model, "inputs", None) or []
    if len(inputs) != 1:
        raise InvalidInput(
            "A number as batch takes a model that says the shapes of its inputs.",
            f"{model.name}, {type(model).__name__} without keras.Input",
            "Pass arrays: advise(model, (x, y)), with a batch of samples.",
        )
    return inputs[0]


def _made(tensor: Any, samples: int) -> Any:
    shape = tensor.shape[1:]
    if None in shape:
        raise InvalidInput(
            "A number as batch takes inputs whose sizes are all known.",
            f"{tensor.name} of shape {tuple(tensor.shape)}",
            "Pass arrays: advise(model, (x, y)), with a batch of samples.",
        )
    numbers = np.random.default_rng(0)
    dtype = keras.backend.standardize_dtype(tensor.dtype)
    if "float" not in dtype:
        return np.zeros((samples, *shape), dtype)
    return numbers.normal(size=(samples, *shape)).astype("float32")
