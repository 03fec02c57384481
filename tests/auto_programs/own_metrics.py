"""Metrics of the program's own that count: by a class, by a class of Keras's, and by a function."""

import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(43)
numbers = np.random.default_rng(43)
x = numbers.normal(size=(103, 5)).astype("float32")
y = (x[:, :1] + 0.3 * numbers.normal(size=(103, 1)) > 0).astype("float32")


class OwnPrecision(keras.metrics.Metric):
    """From counts of its own."""

    def __init__(self, name="own_precision", **options):
        super().__init__(name=name, **options)
        self.right = self.add_weight(shape=(), initializer="zeros", name="right")
        self.said = self.add_weight(shape=(), initializer="zeros", name="said")

    def update_state(self, targets, predicted, sample_weight=None):
        said = ops.cast(predicted > 0.5, "float32")
        self.right.assign_add(ops.sum(said * targets))
        self.said.assign_add(ops.sum(said))

    def result(self):
        return self.right / (self.said + 1e-7)

    def reset_state(self):
        self.right.assign(0)
        self.said.assign(0.0)


class RootOfMean(keras.metrics.Mean):
    def update_state(self, targets, predicted, sample_weight=None):
        return super().update_state(ops.square(targets - predicted), sample_weight)

    def result(self):
        return ops.sqrt(super().result())


def worst_share(targets, predicted):
    return ops.mean(ops.cast(ops.abs(targets - predicted) > 0.6, "float32"))


model = keras.Sequential([keras.Input((5,)), layers.Dense(6, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(
    keras.optimizers.SGD(0.3), "binary_crossentropy", metrics=[OwnPrecision(), RootOfMean(name="root"), worst_share]
)
history = model.fit(
    x, y, batch_size=17, epochs=3, validation_data=(x[:40], y[:40]), validation_batch_size=20, verbose=0
)
results = model.evaluate(x, y, batch_size=16, verbose=0, return_dict=True)
results.pop("worst_share")  # of batches of other sizes
