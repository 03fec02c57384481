"""Keras's example "Simple MNIST convnet": its layers, batch size, epochs and optimizer, in our own words.

Source: https://keras.io/examples/vision/mnist_convnet
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers

from jupyter_ddl.datasets import mnist

BATCH_SIZE = 128
EPOCHS = 15
DROPOUT = 0.5
# No more images than the smaller set of MNIST has, wherever the test runs.
IMAGES = 9000


def convnet(dropout: float) -> Any:
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, kernel_size=(3, 3), activation="relu"),
            layers.MaxPooling2D(pool_size=(2, 2)),
            layers.Conv2D(64, kernel_size=(3, 3), activation="relu"),
            layers.MaxPooling2D(pool_size=(2, 2)),
            layers.Flatten(),
            layers.Dropout(dropout),
            layers.Dense(10, activation="softmax"),
        ]
    )


def trained(seed: int, *, dropout: float = DROPOUT, epochs: int = EPOCHS, images: int = IMAGES) -> dict[str, Any]:
    """Train as the example does; return the weights, and the accuracy on the test images."""
    (x, y), (x_test, y_test), _ = mnist(download=False)
    keras.utils.set_random_seed(seed)
    model = convnet(dropout)
    model.compile(loss="categorical_crossentropy", optimizer="adam", metrics=["accuracy"])
    model.fit(*prepared(x[:images], y[:images]), batch_size=BATCH_SIZE, epochs=epochs, validation_split=0.1, verbose=0)
    _, accuracy = model.evaluate(*prepared(x_test, y_test), verbose=0)
    weights = model.get_weights()
    keras.utils.clear_session()
    return {"weights": weights, "accuracy": float(accuracy)}


def prepared(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.expand_dims(images.astype("float32") / 255, -1), keras.utils.to_categorical(labels, 10)
