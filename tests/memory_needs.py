"""Prints as JSON what `jupyter_ddl.memory.advise` says of small models whose needs are known, on Keras's backend.

Run as a program: `KERAS_BACKEND=torch python memory_needs.py`.
"""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np

import jupyter_ddl.memory as memory

WIDTH, BATCH = 32, 2048


class Block(keras.layers.Layer):
    """What keeps more inside than it is given."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(8 * WIDTH, activation="gelu")
        self.outer = keras.layers.Dense(WIDTH)

    def build(self, shape: Any) -> None:
        self.inner.build(shape)
        self.outer.build((*shape[:-1], 8 * WIDTH))
        self.built = True

    def call(self, x: Any) -> Any:
        return x + self.outer(self.inner(x))


def made(optimizer: Any) -> Any:
    keras.utils.set_random_seed(0)
    inputs = keras.Input((WIDTH,))
    x = Block()(Block()(inputs))
    x = keras.layers.BatchNormalization()(keras.layers.Dropout(0.5)(x))
    model = keras.Model(inputs, keras.layers.Dense(1)(x))
    model.compile(optimizer, "mse")
    return model


def of_keras() -> dict[str, Any]:
    model = made("adam")
    before = [np.array(variable) for variable in model.variables]
    found = memory.advise(model, BATCH, ranks=2, device_bytes=2**40).as_dict()
    twice = memory.advise(model, 2 * BATCH, device_bytes=2**40).need.activations_bytes
    with_targets = memory.advise(model, (np.zeros((8, WIDTH)), np.zeros((8, 1))), samples=BATCH, device_bytes=2**40)
    momentum = memory.advise(made(keras.optimizers.SGD(0.1, momentum=0.9)), BATCH).need.optimizer_bytes
    plain = memory.advise(made("sgd"), BATCH).need.optimizer_bytes
    return {
        **found,
        "of_twice_the_batch": twice,
        "with_targets": with_targets.need.activations_bytes,
        "momentum_bytes": momentum,
        "plain_bytes": plain,
        "is_unchanged": all(
            np.array_equal(one, np.array(variable)) for one, variable in zip(before, model.variables, strict=True)
        ),
        "policies": sorted({layer.dtype_policy.name for layer in model._flatten_layers()}),
        "modes": [layer._remat_mode is None for layer in model._flatten_layers()],
    }


def of_torch() -> dict[str, Any]:
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(WIDTH, 100), torch.nn.GELU(), torch.nn.Linear(100, 1))
    optimizer = torch.optim.AdamW(module.parameters())
    batch = (torch.zeros(BATCH, WIDTH), torch.zeros(BATCH, 1))
    options = {"loss": torch.nn.functional.mse_loss, "optimizer": optimizer, "ranks": 2, "device_bytes": 2**40}
    found = memory.advise(module, batch, **options)
    return {**found.as_dict(), "has_gradients": any(weight.grad is not None for weight in module.parameters())}


def refused() -> list[str]:
    told = []
    for model, batch in (
        (keras.Sequential([keras.layers.Dense(1)]), 4),
        (made("sgd"), 0),
        (made("sgd"), "x"),
        (len, 4),
    ):
        try:
            memory.advise(model, batch)
        except ValueError as error:
            told.append(str(error))
    return told


if __name__ == "__main__":
    answers = {"backend": keras.config.backend(), "keras": of_keras(), "refused": refused()}
    if keras.config.backend() == "torch":
        answers["torch"] = of_torch()
    print(json.dumps(answers))
