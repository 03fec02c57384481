"""Prints as JSON what `advise` says that a training needs, and the most memory that the training then held.

Run as a program: `KERAS_BACKEND=torch python -m tests.memory_peaks keras`, or `... torch` for a loop of PyTorch's.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

import jupyter_ddl.memory as memory

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH, INNER, LENGTH, BLOCKS, BATCH, STEPS = 64, 1024, 64, 6, 64, 3


def peak_bytes() -> int:
    """Return the most resident memory that this process had; what getrusage says may be of the one that began it."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def data() -> tuple[Any, Any]:
    numbers = np.random.default_rng(0)
    x = numbers.normal(size=(STEPS * BATCH, LENGTH, WIDTH)).astype("float32")
    return x, numbers.normal(size=(STEPS * BATCH, LENGTH, 1)).astype("float32")


def of_keras() -> dict[str, Any]:
    import keras

    x, y = data()
    keras.utils.set_random_seed(1)
    hidden = inputs = keras.Input((LENGTH, WIDTH))
    for _ in range(BLOCKS):
        inner = keras.layers.Dense(INNER, activation="gelu")(hidden)
        hidden = keras.layers.Add()([hidden, keras.layers.Dense(WIDTH)(inner)])
    model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
    model.compile("adam", "mse")
    # So that threads have started, and the step is traced.
    model.fit(x[:2], y[:2], batch_size=2, verbose=0)
    advice = memory.advise(model, (x[:8], y[:8]), samples=BATCH)
    return measured(advice, lambda: model.fit(x, y, batch_size=BATCH, shuffle=False, verbose=0))


def of_torch() -> dict[str, Any]:
    import torch

    from benchmarks.memory_loop_program import Block

    x, y = map(torch.from_numpy, data())
    module = torch.nn.Sequential(*(Block() for _ in range(BLOCKS)), torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.Adam(module.parameters())
    loss = torch.nn.functional.mse_loss

    def train(size: int) -> None:
        for one, other in zip(x.split(size), y.split(size), strict=True):
            optimizer.zero_grad()
            loss(module(one), other).backward()
            optimizer.step()

    advice = memory.advise(module, (x[:8], y[:8]), samples=BATCH, loss=loss, optimizer=optimizer)
    return measured(advice, lambda: train(BATCH))


def measured(advice: memory.Advice, train: Callable[[], Any]) -> dict[str, Any]:
    need, before = advice.need, psutil.Process().memory_info().rss
    train()
    return {
        "need_bytes": need.all_bytes,
        "peak_bytes": peak_bytes(),
        "before_bytes": before,
        # The weights and what the process holds were there before.
        "of_training_bytes": need.gradients_bytes + need.optimizer_bytes + need.activations_bytes,
        "notes": advice.notes,
    }


if __name__ == "__main__":
    print(json.dumps(of_torch() if sys.argv[1] == "torch" else of_keras()))
