"""What the callbacks' learning rates must be, and the training under them, in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

RATE = 0.4
STEPS = 4
BATCH = 8
X = np.random.default_rng(5).normal(size=(STEPS * BATCH, 3))
Y = X @ np.array([[1.0], [-2.0], [0.5]])
MOMENTUM = 0.9
RHO, EPSILON = 0.9, 1e-7


def warm_up_rates(world_size: int, warmup_epochs: float, epochs: int = 4) -> list[float]:
    """Return the learning rate of each step. Source: Goyal et al. 2017, section 2.2; linear in the steps."""
    done = np.minimum((np.arange(epochs * STEPS) + 1) / STEPS, warmup_epochs)
    if warmup_epochs < 1:
        # Whether a warm-up goes on is asked at an epoch's begin; within it the rate stops at its aim.
        done[STEPS:] = warmup_epochs
    return (RATE / world_size * (done * (world_size - 1) / warmup_epochs + 1)).tolist()


def reference_weights(name: str, rates: Sequence[float], *, corrected: bool) -> np.ndarray:
    """Return the weights of the linear model, from 0, after steps with these learning rates.

    With the correction momentum is a sum of gradients, which the learning rate of the step multiplies; without it a sum
    of updates, each with the learning rate of its own step. Source: Goyal et al. 2017, section 3, equations 9 and 10
    """
    weights = np.zeros((3, 1))
    velocity = np.zeros((3, 1))
    squares = np.zeros((3, 1))
    momentum = 0.0 if name == "plain SGD" else MOMENTUM
    for step, rate in enumerate(rates):
        batch = slice(step % STEPS * BATCH, (step % STEPS + 1) * BATCH)
        gradient = 2 / BATCH * X[batch].T @ (X[batch] @ weights - Y[batch])
        if name == "RMSprop":
            squares = RHO * squares + (1 - RHO) * gradient**2
            gradient = gradient / np.sqrt(squares + EPSILON)
        own, later = (gradient, rate) if corrected else (rate * gradient, 1.0)
        velocity = momentum * velocity + own
        weights = weights - later * (momentum * velocity + own if name == "nesterov" else velocity)
    return weights
