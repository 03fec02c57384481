"""A batch of 7, which no number of ranks divides; the last one has a single sample."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(17)
numbers = np.random.default_rng(17)
x = numbers.normal(size=(50, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True) ** 2

model = keras.Sequential([keras.Input((4,)), layers.Dense(10, activation="relu"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.005), loss="mse", metrics=["mae"])
history = model.fit(x, y, batch_size=7, epochs=3, validation_data=(x[:5], y[:5]), validation_batch_size=4, verbose=0)
results = model.evaluate(x, y, batch_size=7, verbose=0, return_dict=True)
predictions = model.predict(x, batch_size=7, verbose=0)
