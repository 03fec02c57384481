"""What a model of the scaling benchmark is: losses of variables, each with its optimizer, and data.

Runs on: every process that trains; a terminal reads names and sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np


@dataclass(frozen=True)
class Part:
    """Variables that one optimizer trains: most models are one part, a GAN is two.

    Attributes:
        variables: trainable ones of Keras.
        optimizer: of Keras, built for them or not.
        loss: batch (x, y) -> the mean loss of its samples, a scalar.
    """

    variables: list[Any]
    optimizer: Any
    loss: Callable[[Any, Any], Any]


@dataclass(frozen=True)
class BenchmarkModel:
    """A model, its data and its batch.

    Attributes:
        name: as the command line has it.
        source: the paper, and what of it is kept.
        batch_size: samples of a step on each rank, by default.
        size: pixels along an edge of an image, or tokens of a sequence, by default.
        parts: (Keras, size) -> the parts, trained one after the other in each step.
        data: (random numbers, samples, size) -> x and y, as float32 or int32.
    """

    name: str
    source: str
    batch_size: int
    size: int
    parts: Callable[[Any, int], list[Part]]
    data: Callable[[np.random.Generator, int, int], tuple[np.ndarray, np.ndarray]]


def one_part(model: Any, optimizer: Any, loss: Any) -> list[Part]:
    """Return the parts of a model that one optimizer trains.

    Args:
        model: of Keras, built.
        optimizer: of the same Keras.
        loss: of the same Keras, or a function (y, the model's output) -> a loss for each sample. The mean is taken
            here: under a strategy Keras 2 refuses to.
    """
    of_samples = getattr(loss, "call", loss)

    def mean(x: Any, y: Any) -> Any:
        import tensorflow as tf

        return tf.reduce_mean(of_samples(y, model(x, training=True)))

    return [Part(model.trainable_variables, optimizer, mean)]
