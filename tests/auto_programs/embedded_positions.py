"""A transformer's beginning: the rows of its table of positions are the same for every batch, those of its words not.

An optimizer that squares gradients squares the rows that it gets one by one.
"""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(18)
numbers = np.random.default_rng(18)
reviews = numbers.integers(1, 30, (96, 8)).astype("int32")
liked = (reviews < 12).mean(axis=1) > 0.4


class Places(layers.Layer):
    def __init__(self, length: int, size: int):
        super().__init__()
        self.words = layers.Embedding(30, size)
        self.places = layers.Embedding(length, size)

    def call(self, words):
        return self.words(words) * self.places(ops.arange(0, ops.shape(words)[-1], 1))


def make():
    words = keras.Input((8,), dtype="int32")
    hidden = layers.Dense(4, activation="tanh")(layers.Flatten()(Places(12, 4)(words)))
    return keras.Model(words, layers.Dense(1, activation="sigmoid")(hidden))


model = make()
model.compile(optimizer=keras.optimizers.RMSprop(0.01), loss="binary_crossentropy")
history = model.fit(reviews, liked.astype("float32"), batch_size=32, epochs=3, verbose=0)
second = make()
second.compile(optimizer=keras.optimizers.Adam(0.01, clipnorm=1.0), loss="binary_crossentropy")
second.fit(reviews, liked.astype("float32"), batch_size=24, epochs=2, verbose=0)
results = {f"of weight {at}": float(np.square(weight).sum()) for at, weight in enumerate(second.get_weights())}
