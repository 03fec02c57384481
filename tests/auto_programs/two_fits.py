"""Training goes on: a second fit at a lower rate, and then the first layer is frozen for a third."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(21)
numbers = np.random.default_rng(21)
x = numbers.normal(size=(80, 6)).astype("float32")
y = np.sin(x[:, :1])

model = keras.Sequential([keras.Input((6,)), layers.Dense(10, activation="tanh"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.03, momentum=0.9), loss="mse")
first = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
model.optimizer.learning_rate = 0.01
history = model.fit(x, y, batch_size=20, epochs=4, initial_epoch=2, verbose=0)
model.layers[0].trainable = False
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
third = model.fit(x, y, batch_size=16, verbose=0)
results = {"first loss": first.history["loss"][-1], "third loss": third.history["loss"][-1]}
