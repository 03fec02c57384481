"""A model in double precision, whose difference from one process is rounding alone."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(8)
before = keras.config.floatx()
keras.config.set_floatx("float64")
keras.config.set_dtype_policy("float64")
numbers = np.random.default_rng(8)
x = numbers.normal(size=(103, 5))
y = np.sin(x.sum(axis=1, keepdims=True))
model = keras.Sequential([keras.Input((5,)), layers.Dense(16, activation="tanh"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss="mse")
history = model.fit(x, y, batch_size=16, epochs=4, verbose=0)
keras.config.set_floatx(before)
