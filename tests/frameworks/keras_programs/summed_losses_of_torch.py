"""Losses that are sums over the batch, by their reduction and by their formula, and one that divides by weights."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(41)
numbers = np.random.default_rng(41)
x = numbers.normal(size=(101, 5)).astype("float32")
first = x[:, :1] * 0.5
second = np.sin(x[:, 1:3]).astype("float32")
third = np.abs(x[:, 3:4])
fourth = x[:, 4:] ** 2
weights = numbers.uniform(0.1, 3.0, size=101).astype("float32")


def total_error(targets, predicted):
    return ops.sum(ops.square(targets - predicted))


class Halves(keras.losses.Loss):
    """A class of the program's own, of which only the numbers tell what it is."""

    def call(self, targets, predicted):
        return 0.5 * ops.sum(ops.abs(targets - predicted))


inputs = keras.Input((5,))
hidden = layers.Dense(12, activation="tanh")(inputs)
outputs = [layers.Dense(1, name="a")(hidden), layers.Dense(2, name="b")(hidden)]
outputs += [layers.Dense(1, name="c")(hidden), layers.Dense(1, name="d")(hidden)]
model = keras.Model(inputs, outputs)
model.compile(
    optimizer=keras.optimizers.SGD(0.002, momentum=0.5),
    loss=[
        keras.losses.MeanSquaredError(reduction="sum"),
        total_error,
        keras.losses.MeanAbsoluteError(reduction="mean_with_sample_weight"),
        Halves(),
    ],
    loss_weights=[1.0, 0.5, 2.0, 1.0],
)
targets = [first, second, third, fourth]
history = model.fit(x, targets, batch_size=20, epochs=3, verbose=0)

alone = keras.Sequential([keras.Input((5,)), layers.Dense(4, activation="tanh"), layers.Dense(1)])
alone.compile(keras.optimizers.Adam(0.01), keras.losses.LogCosh(reduction="mean_with_sample_weight"))
by_weights = alone.fit(x, first, sample_weight=weights, batch_size=25, epochs=2, verbose=0).history["loss"]
alone.compile(keras.optimizers.SGD(0.001), keras.losses.LogCosh(reduction="sum"))
summed = alone.train_on_batch(x[:31], first[:31])
results = {"by weights": by_weights[-1], "summed": summed}
predictions = alone.predict(x, verbose=0)
