"""A network in Keras on PyTorch or JAX: `python -m benchmarks.keras_program WAY` prints samples/s of all processes.

| way | is |
|---|---|
| `fit` | a program for one process; `%%distributed --auto --batch global` distributes it |
| `torch`, `jax` | several processes by hand, as Keras's guides to distributed training teach it |

Runs on: every rank, and in processes that the benchmark starts.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH_SIZE = 512 if shutil.which("nvidia-smi") else 64  # of a process
STEPS, EPOCHS = 40, 3  # in an epoch; the first is not timed


class Stopwatch(keras.callbacks.Callback):  # type: ignore[misc]
    """Takes the time of all epochs but the first."""

    began_s = seconds = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002 (Keras's signature)
        """Note when the second epoch begins."""
        if epoch == 1:
            self.began_s = time.perf_counter()

    def on_train_end(self, logs: Any = None) -> None:  # noqa: ARG002
        """Note how long the epochs took."""
        self.seconds = time.perf_counter() - self.began_s


def made() -> Any:
    """Return the network, not compiled."""
    keras.utils.set_random_seed(1)
    convolutions = [keras.layers.Conv2D(width, 3, activation="relu") for width in (16, 32)]
    dense = [keras.layers.Flatten(), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)]
    return keras.Sequential([keras.Input((28, 28, 1)), *convolutions, *dense])


def images(number: int) -> tuple[Any, Any]:
    """Return images and labels."""
    random = np.random.default_rng(1)
    return random.random((number, 28, 28, 1), dtype="float32"), random.integers(0, 10, number).astype("int32")


def fit(n: int = 1, share: int | None = None) -> float:
    """Train by `fit`; return samples/s of n processes.

    Args:
        n: processes that train together.
        share: samples in a batch of this process; by default all of it, for `--auto` divides it.
    """
    batch_size = share or n * BATCH_SIZE
    model, stopwatch = made(), Stopwatch()
    model.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*images(batch_size * STEPS), batch_size=batch_size, epochs=EPOCHS, verbose=0, callbacks=[stopwatch])
    return n * BATCH_SIZE * STEPS * (EPOCHS - 1) / stopwatch.seconds


def torch_by_hand() -> float:
    """Train by a loop of PyTorch's with DDP; return samples/s."""
    import torch
    import torch.distributed as dist

    dist.init_process_group()
    n, data = dist.get_world_size(), torch.utils.data.TensorDataset(*map(torch.from_numpy, images(BATCH_SIZE * STEPS)))
    model = torch.nn.parallel.DistributedDataParallel(made())
    optimizer, loss_of = torch.optim.SGD(model.parameters(), 0.01), torch.nn.CrossEntropyLoss()
    device = next(model.parameters()).device
    loader = torch.utils.data.DataLoader(data, BATCH_SIZE, shuffle=True)
    began_s = time.perf_counter()
    for epoch in range(EPOCHS):
        if epoch == 1:
            began_s = time.perf_counter()
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(model(x.to(device)), y.to(device).long()).backward()
            optimizer.step()
    return float(n * BATCH_SIZE * STEPS * (EPOCHS - 1) / (time.perf_counter() - began_s))


def jax_by_hand() -> float:
    """Train by `fit` over the devices of all processes; return samples/s."""
    import jax

    n = int(os.environ["WORLD_SIZE"])
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, n, int(os.environ["RANK"]))
    keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
    return fit(n, BATCH_SIZE)


def main() -> None:
    """Run this process's part."""
    ways: dict[str, Callable[[], float]] = {"fit": fit, "torch": torch_by_hand, "jax": jax_by_hand}
    print(json.dumps({"samples_per_s": ways[sys.argv[1]]()}))


if __name__ == "__main__":
    main()
