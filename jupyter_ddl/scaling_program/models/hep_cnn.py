"""HEP-CNN: tells collisions with new physics from those of the standard model, as images of a detector.

Source: Kurth et al. 2017, "Deep Learning at 15PF" (arXiv:1708.05256), the supervised network: images of 224 x 224
pixels in 3 channels; five convolutions of 3 x 3 with 128 filters and ReLU, the first four followed by max pooling of
2 x 2, the fifth by average pooling over the whole image; one dense layer to 2 classes; ADAM. Its table of models
gives 2.3 MiB of parameters: these are 594,178, or 2.27 MiB. What the paper leaves open is as its authors' benchmark
has it (github.com/NERSC/hep_cnn_benchmark, configs/cori_knl_224_adam.json): He's initial weights, padding "same",
learning rate 0.001. The same benchmark has a variant of 64 x 64 pixels with one convolution less; `--size 64` keeps
all five.

The authors' 10 million events are not public. What is made here has their form (the benchmark's README.md): channels
are the energy deposited, its electromagnetic fraction and the number of tracks, each divided by its maximum; an event
is a few jets on an empty detector, and one with new physics (supersymmetry with R-parity violation) has more of them.
The numbers of jets, 4 and 8 on average, are ours.

Runs on: every process that trains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jupyter_ddl.scaling_program.models.definition import BenchmarkModel, Part, one_part

FILTERS = 128
CONVOLUTIONS = 5
JETS = (4.0, 8.0)


def _parts(keras: Any, size: int) -> list[Part]:
    layers = keras.layers
    stack = [layers.InputLayer((size, size, 3))]
    for i in range(CONVOLUTIONS):
        stack.append(
            layers.Conv2D(FILTERS, 3, padding="same", activation="relu", kernel_initializer="he_normal"),
        )
        stack.append(layers.GlobalAveragePooling2D() if i == CONVOLUTIONS - 1 else layers.MaxPooling2D())
    stack.append(layers.Dense(2))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return one_part(keras.Sequential(stack), keras.optimizers.Adam(1e-3), loss)


def _data(random: np.random.Generator, samples: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    labels = random.integers(0, 2, samples).astype("int32")
    images = np.zeros((samples, size, size, 3), "float32")
    width = max(1.5, size / 56)
    cells = np.arange(size)
    for image, label in zip(images, labels, strict=True):
        for _ in range(1 + random.poisson(JETS[label] - 1)):
            # The azimuth is a circle, the pseudo-rapidity is not.
            azimuth, rapidity = random.uniform(0, size), random.uniform(0, size)
            across = np.minimum(abs(cells - azimuth), size - abs(cells - azimuth))
            jet = random.exponential() * np.exp(
                -(across[:, None] ** 2 + (cells[None, :] - rapidity) ** 2) / (2 * width**2)
            )
            image[..., 0] += jet
            image[..., 1] += jet * random.uniform(0.1, 0.9)
            image[..., 2] += random.poisson(8 * jet)
    return images / np.maximum(images.max((0, 1, 2)), 1e-6), labels


MODEL = BenchmarkModel("hep-cnn", "Kurth et al. 2017, arXiv:1708.05256 (data made)", 8, 224, _parts, _data)
