"""ResNet-50 on images of ImageNet's form: 25.6 million parameters in 214 tensors, biases included.

Source: He et al. 2015 (arXiv:1512.03385) as `keras.applications` has it; 32 images of 224 x 224 a rank and SGD with
momentum 0.9 at a learning rate of 0.1 for 256 images, as Goyal et al. 2017 (arXiv:1706.02677), section 2. Images are
noise around a colour of their class.

Runs on: every process that trains.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jupyter_ddl.scaling_program.models.definition import BenchmarkModel, Part, one_part

CLASSES = 1000
BATCH_SIZE = 32


def _parts(keras: Any, size: int) -> list[Part]:
    model = keras.applications.ResNet50(
        weights=None, input_shape=(size, size, 3), classes=CLASSES, classifier_activation=None
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return one_part(model, keras.optimizers.SGD(0.1 * BATCH_SIZE / 256, momentum=0.9), loss)


def _data(random: np.random.Generator, samples: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    colours = np.random.default_rng(0).normal(0, 1, (CLASSES, 3))
    labels = random.integers(0, CLASSES, samples).astype("int32")
    images = random.normal(0, 1, (samples, size, size, 3)) + colours[labels][:, None, None]
    return images.astype("float32"), labels


MODEL = BenchmarkModel("resnet50", "He et al. 2015, arXiv:1512.03385 (data made)", BATCH_SIZE, 224, _parts, _data)
