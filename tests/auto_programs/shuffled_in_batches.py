"""Arrays shuffled by `shuffle="batch"`: each batch keeps its samples."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(45)
numbers = np.random.default_rng(45)
x = numbers.normal(size=(61, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)

model = keras.Sequential([keras.Input((4,)), layers.Dense(6, activation="tanh"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
history = model.fit(x, y, batch_size=12, epochs=3, shuffle="batch", verbose=0)
