"""Twins: the same layers see both members of a pair."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(7)
numbers = np.random.default_rng(7)
left = numbers.normal(size=(80, 5)).astype("float32")
right = np.where(numbers.random((80, 1)) < 0.5, left, numbers.normal(size=(80, 5))).astype("float32")
same = (left == right).all(axis=1).astype("float32")

encoder = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(4)])
one, other = keras.Input((5,)), keras.Input((5,))
distance = ops.sum(ops.square(encoder(one) - encoder(other)), axis=1, keepdims=True)
model = keras.Model([one, other], layers.Dense(1, activation="sigmoid")(-distance))
model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.5), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit([left, right], same, batch_size=16, epochs=3, verbose=0)
results = model.evaluate([left, right], same, batch_size=16, verbose=0, return_dict=True)
