"""A test_step that counts batches, on data of each kind, in fit and by itself, in steps, with a smaller last batch."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(41)
numbers = np.random.default_rng(41)
x = numbers.normal(size=(75, 5)).astype("float32")
y = x[:, :1] * 2 + 1


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return x[16 * index : 16 * index + 16], y[16 * index : 16 * index + 16]


class Tracked(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)
        self.total = keras.metrics.Mean(name="total")
        self.spread = keras.metrics.Mean(name="spread")

    def call(self, inputs):
        return self.dense(inputs)

    @property
    def metrics(self):
        return [self.total, self.spread]

    def test_step(self, data):
        inputs, targets = data[:2]
        wrong = tf.abs(targets - self(inputs))
        self.total.update_state(tf.reduce_sum(wrong))
        # Of the samples of a batch with each other.
        self.spread.update_state(tf.reduce_max(wrong) - tf.reduce_min(wrong))
        return {"total": self.total.result(), "spread": self.spread.result()}

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(targets - self(inputs)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def dataset():
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(16)


def unknown():
    return dataset().filter(lambda inputs, targets: True)


def generator():
    return ((x[i : i + 16], y[i : i + 16]) for i in range(0, 75, 16))


results = {}


def evaluated(model, name, *data, **options):
    told = model.evaluate(*data, verbose=0, return_dict=True, **options)
    results.update({f"{name}: {metric}": value for metric, value in told.items()})


model = Tracked()
model.compile(optimizer=keras.optimizers.SGD(0.05))
# Of fewer batches than there may be ranks, and the first that the model sees.
evaluated(model, "one batch", x[:9], y[:9])
stop = keras.callbacks.EarlyStopping("val_total", mode="min", patience=2, min_delta=1e-3)
history = model.fit(x[:60], y[:60], batch_size=20, epochs=3, validation_data=dataset(), callbacks=[stop], verbose=0)
model.fit(x[:60], y[:60], batch_size=20, epochs=2, validation_data=(x, y), validation_steps=2, verbose=0)
results |= {f"steps of arrays: {name}": values[-1] for name, values in model.history.history.items()}
evaluated(model, "dataset", dataset())
evaluated(model, "PyDataset", Batches())
evaluated(model, "generator", generator(), steps=5)
evaluated(model, "some of a generator", generator(), steps=3)
evaluated(model, "arrays", x, y, batch_size=16)
evaluated(model, "arrays in steps", x, y, steps=2)
evaluated(model, "steps of arrays", x, y, steps=2, batch_size=10)
evaluated(model, "steps of a dataset", dataset(), steps=3)
# Keras 3.12 does not by itself.
model.reset_metrics()
told = model.test_on_batch(x[:7], y[:7], return_dict=True)
results |= {f"test_on_batch: {name}": value for name, value in told.items()}
for name, options in {
    "eager": {"run_eagerly": True},
    "compiled": {"jit_compile": True},
    "several at once": {"steps_per_execution": 3},
}.items():
    model.compile(optimizer=keras.optimizers.SGD(0.05), **options)
    evaluated(model, f"{name}, dataset", dataset())
    evaluated(model, f"{name}, steps", dataset(), steps=2)
    # Without these options, Keras counts a batch too many here.
    evaluated(model, f"{name}, unknown", unknown())
