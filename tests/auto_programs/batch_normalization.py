"""BatchNormalization: each rank normalises by its own part of the batch."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(33)
numbers = np.random.default_rng(33)
x = (numbers.normal(size=(96, 6)) * [1, 2, 3, 1, 2, 3] + 2).astype("float32")
y = (x[:, 0] > x[:, 3]).astype("int32")

model = keras.Sequential(
    [
        keras.Input((6,)),
        layers.BatchNormalization(momentum=0.8),
        layers.Dense(16, activation="relu"),
        layers.BatchNormalization(momentum=0.8),
        layers.Dense(2),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(x, y, batch_size=24, epochs=3, shuffle=False, verbose=0)
