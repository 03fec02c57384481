"""Dropout: every rank draws masks of its own."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(34)
numbers = np.random.default_rng(34)
x = numbers.normal(size=(128, 8)).astype("float32")
y = (x[:, 0] > 0).astype("int32")

drawn = layers.Dropout(0.5)
model = keras.Sequential([keras.Input((8,)), layers.Dense(16, activation="relu"), drawn, layers.Dense(2)])
model.compile(
    optimizer=keras.optimizers.Adam(0.02),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(x, y, batch_size=16, epochs=5, verbose=0)
sample = np.ones((1, 64), "float32")
