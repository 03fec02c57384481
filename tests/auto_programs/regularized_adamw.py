"""Weights are kept small twice: by L2 in the loss, and by AdamW."""

import keras
import numpy as np
from keras import layers, regularizers

keras.utils.set_random_seed(16)
numbers = np.random.default_rng(16)
x = numbers.normal(size=(85, 6)).astype("float32")
y = x[:, :1] - x[:, 1:2]

model = keras.Sequential(
    [
        keras.Input((6,)),
        layers.Dense(8, activation="relu", kernel_regularizer=regularizers.L2(0.01)),
        layers.Dense(1, kernel_regularizer="l2"),
    ]
)
model.compile(optimizer=keras.optimizers.AdamW(0.01, weight_decay=0.02), loss="mse")
history = model.fit(x, y, batch_size=16, epochs=3, validation_split=0.2, verbose=0)
results = {"loss": model.evaluate(x, y, batch_size=16, verbose=0)}
