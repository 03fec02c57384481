"""Answers with any number of rows for a batch: many a sample, one for some, one in all; words; unequal lengths."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(43)
numbers = np.random.default_rng(43)
x = numbers.normal(size=(37, 4, 2)).astype("float32")
y = x[:, 0, :1]

model = keras.Sequential([keras.Input((4, 2)), layers.Flatten(), layers.Dense(1)])
model.compile("sgd", "mse")
history = model.fit(x, y, batch_size=12, verbose=0)

inputs = keras.Input((4, 2))
hidden = layers.Dense(3)(inputs)


def ending(function, **options):
    return keras.Model(inputs, layers.Lambda(function, **options)(hidden))


tokens = ending(lambda t: ops.reshape(t, (-1, 3)), output_shape=lambda _: (None, 3))
pairs = ending(lambda t: ops.mean(t[: ops.shape(t)[0] // 2], axis=1), output_shape=lambda _: (None, 3))
total = ending(lambda t: ops.sum(t), output_shape=lambda _: ())
both = keras.Model(inputs, {"tokens": tokens(inputs), "same": layers.Flatten()(hidden)})
predictions = []
for samples in (2, 5, 12, 37):
    for made in (tokens, pairs, total, both):
        found = made.predict(x[:samples], batch_size=6, verbose=0)
        predictions += list(found.values()) if isinstance(found, dict) else [found]
predictions.append(tokens.predict(x, verbose=0))
predictions.append(tokens.predict(x, steps=3, verbose=0))
predictions.append(tokens.predict(tf.data.Dataset.from_tensor_slices(x).batch(5), verbose=0))

words = ["north", "east", "south", "west"]
lookup = layers.StringLookup(vocabulary=words, num_oov_indices=0, invert=True)
named = keras.Sequential([keras.Input((), dtype="int64"), lookup])
found = named.predict(np.arange(37) % 4, batch_size=8, verbose=0)
predictions.append(np.array([words.index(word.decode()) for word in found.ravel()]))


class Longest(keras.Model):
    """Answers as wide as the longest of a batch."""

    def call(self, lengths):
        return tf.sequence_mask(lengths[:, 0])


found = Longest(name="longest").predict(1 + np.arange(20).reshape(-1, 1), batch_size=4, verbose=0)
predictions += [found.row_lengths().numpy(), found.to_tensor().numpy().astype(int)]
results = {}
