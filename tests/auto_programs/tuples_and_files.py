"""Batches that are a tuple of one part, arrays that are all mapped from files, and an optimizer made like another."""

import os

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(52)
numbers = np.random.default_rng(52)
files = [f"{name}-of-{os.getpid()}.npy" for name in ("first", "second", "target")]
for file in files:
    np.save(file, numbers.normal(size=(67, 4)).astype("float32"))
first, second, target = (np.load(file, mmap_mode="r") for file in files)


class Pairs(keras.Model):
    """Takes batches ((first, second),), as a tf.data.Dataset of inputs without targets has them."""

    def __init__(self):
        super().__init__()
        self.hidden = layers.Dense(6, activation="tanh")
        self.ending = layers.Dense(4)

    def call(self, rows):
        return self.ending(self.hidden(rows))

    def train_step(self, data):
        ((rows, others),) = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(rows, training=True) - others) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(rows)[0])
        return {"loss": self._loss_tracker.result()}

    def test_step(self, data):
        ((rows, others),) = data
        loss = tf.reduce_mean((self(rows) - others) ** 2)
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(rows)[0])
        return {"loss": self._loss_tracker.result()}


model = Pairs()
model.compile(keras.optimizers.SGD(0.1, momentum=0.9))
dataset = tf.data.Dataset.from_tensor_slices(((first, second),)).batch(12)
history = model.fit(dataset, epochs=2, validation_data=dataset, verbose=0)


class Alone(Pairs):
    """Takes batches (rows,)."""

    def train_step(self, data):
        return super().train_step(((data[0], data[0]),))


results = {}
alone = Alone()
alone.compile(keras.optimizers.SGD(0.1))
told = alone.fit(tf.data.Dataset.from_tensors((tf.constant(first),)).repeat(2).unbatch().batch(12), verbose=0)
results["alone"] = told.history["loss"][-1]

mapped = keras.Sequential([keras.Input((4,)), layers.Dense(4)])
mapped.compile(keras.optimizers.SGD(0.1, momentum=0.5), "mse")
for number, made in enumerate((model, mapped)):
    # By the object, whose class is another's on several ranks.
    like = made.optimizer.from_config(made.optimizer.get_config())
    mapped.compile(like, "mse", metrics=["mae"])
    told = mapped.fit(first, target, batch_size=16, epochs=2, validation_data=(second, target), verbose=0)
    results |= {f"{name} of {number}": values[-1] for name, values in told.history.items()}
results["mapped"] = float(np.abs(mapped.get_weights()[0]).sum())
predictions = mapped.predict(second, verbose=0)
