"""Trains for some steps, and keeps their times and losses.

Runs on: every process of a side.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.scaling_program.models.definition import BenchmarkModel

# Batches that a process makes; steps take them in turns. Input is not what is measured.
BATCHES = 4
_TURNS = 4
_SEED = 2017


@dataclass(frozen=True)
class Task:
    """What one process does.

    Attributes:
        model: what is trained.
        batch_size: samples of a step on each replica.
        size: pixels along an edge, or tokens.
        warm_up: the first steps, in which TensorFlow compiles; they count for the loss and not for the times.
        steps: those that are timed.
    """

    model: BenchmarkModel
    batch_size: int
    size: int
    warm_up: int
    steps: int

    def batches(self, replica: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the batches of one replica: others have others, and the same ones in every run."""
        random = np.random.default_rng((_SEED, replica))
        return [self.model.data(random, self.batch_size, self.size) for _ in range(BATCHES)]


@dataclass
class Measured:
    """What one run of one side found.

    Attributes:
        step_s: seconds of each timed step.
        losses: of each step from the first on, the mean of the replicas.
        elapsed_s: seconds of training until the end of each of these steps, without the first, which compiles.
        compute_s: seconds of steps without any exchange, on all ranks; empty where none were taken.
        tensors: gradients of a step.
        parameters: numbers in them.
        exchange_s: (bytes, seconds) of allreduces.
        latency_s: of the shortest message between ranks; None where it was not measured.
    """

    step_s: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    elapsed_s: list[float] = field(default_factory=list)
    compute_s: list[float] = field(default_factory=list)
    tensors: int = 0
    parameters: int = 0
    exchange_s: list[tuple[int, float]] = field(default_factory=list)
    latency_s: float | None = None


def timed(
    task: Task, step: Callable[[int], Any], found: Measured, between: Callable[[int], None] | None = None
) -> None:
    """Take all steps, one after the other, and note them.

    Args:
        task: says how many.
        step: (its number) -> the loss, once the step has ended.
        found: gets their times and losses.
        between: called with the steps since the last time, a few times: what is compared with the steps is measured
            among them, since a machine is not as busy in one minute as in the next.
    """
    at_once = max(1, task.steps // _TURNS)
    elapsed_s = 0.0
    for i in range(task.warm_up + task.steps):
        began_s = time.perf_counter()
        # A loss that has been read is the end of a step, on a GPU too.
        loss = float(step(i))
        took_s = time.perf_counter() - began_s
        elapsed_s += took_s if i else 0.0
        found.losses.append(loss)
        found.elapsed_s.append(elapsed_s)
        if i >= task.warm_up:
            found.step_s.append(took_s)
            if between is not None and len(found.step_s) % at_once == 0:
                between(at_once)


def count(found: Measured, parts: Any) -> None:
    """Note how many gradients a step has, and how many numbers."""
    sizes = [int(np.prod(variable.shape)) for part in parts for variable in part.variables]
    found.tensors, found.parameters = len(sizes), sum(sizes)


def updated(parts: Any, apply: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Compute the gradients of each part and apply them; return the first part's loss.

    Args:
        parts: of the model.
        apply: (part, gradients) -> None.
        x: a batch.
        y: its labels.
    """
    import tensorflow as tf

    losses = []
    for part in parts:
        with tf.GradientTape() as tape:
            loss = part.loss(x, y)
        apply(part, tape.gradient(loss, part.variables))
        losses.append(loss)
    return losses[0]
