"""The optimizer keeps a moving average of the weights, and training ends with that."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(15)
numbers = np.random.default_rng(15)
x = numbers.normal(size=(96, 5)).astype("float32")
y = np.tanh(x.sum(axis=1, keepdims=True))

model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="tanh"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8), loss="huber")
history = model.fit(x, y, batch_size=16, epochs=3, verbose=0)
predictions = model.predict(x, verbose=0)
