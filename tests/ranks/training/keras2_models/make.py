"""Writes the files of this folder, with Keras 2: `python make.py`, where `pip install tf_keras` has been done.

NAME.h5 is a model after an epoch of training, NAME.npz its weights after one more: so they must be where training goes
on from the file. tf_keras has both of Keras 2's kinds of optimizers: those of 2.11 to 2.15, and in `legacy` those of
before.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tf_keras as keras

HERE = Path(__file__).parent
LEGACY = keras.optimizers.legacy
OPTIMIZERS = {
    "2.15-adam": keras.optimizers.Adam(0.01),
    "2.15-sgd": keras.optimizers.SGD(0.05, momentum=0.9),
    "2.10-adam": LEGACY.Adam(0.01, decay=0.1),
    "2.10-rmsprop": LEGACY.RMSprop(0.01, momentum=0.9),
}


def main() -> None:
    numbers = np.random.default_rng(0)
    x, y = numbers.normal(size=(32, 4)).astype("float32"), np.arange(32) % 3
    for name, optimizer in OPTIMIZERS.items():
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.layers.Dense(5, activation="relu", input_shape=(4,)),
                keras.layers.BatchNormalization(),
                keras.layers.Dense(3, activation="softmax"),
            ]
        )
        model.compile(optimizer, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        model.save(HERE / f"{name}.h5")
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
        np.savez(HERE / f"{name}.npz", *model.get_weights())


if __name__ == "__main__":
    main()
