"""Losses with a number for each sample, which the program does not reduce: TensorFlow takes the gradient of the sum."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(51)
numbers = np.random.default_rng(51)
x = numbers.normal(size=(101, 4, 3)).astype("float32")
y = np.tanh(x)


class Margins(keras.Sequential):
    """As a network of triplets: a margin for each sample, clipped before the update."""

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = tf.maximum(tf.reduce_sum((self(inputs, training=True) - targets) ** 2, axis=(1, 2)) - 0.5, 0.0)
        clipped, _ = tf.clip_by_global_norm(tape.gradient(loss, self.trainable_variables), 5.0)
        self.optimizer.apply_gradients(zip(clipped, self.trainable_variables, strict=True))
        self._loss_tracker.update_state(loss)
        return {"loss": self._loss_tracker.result()}


class Diffused(keras.Sequential):
    """As a diffusion model: a loss for each place of a sample; and another one, whose gradient is taken alone."""

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape(persistent=True) as tape:
            predicted = self(inputs, training=True)
            loss = self.loss(targets, predicted)
            by_feature = tf.reduce_mean(predicted**2, axis=(0, 1))
        gradients = tape.gradient(loss, self.trainable_variables)
        others = tape.gradient(by_feature, self.trainable_variables)
        self.optimizer.apply(
            [a + b for a, b in zip(gradients, others, strict=True)],
            self.trainable_variables,
        )
        self._loss_tracker.update_state(loss)
        return {"loss": self._loss_tracker.result()}


class OwnLoss(keras.Sequential):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        return ops.mean(ops.abs(y - y_pred), axis=(1, 2))


class Scaled(Margins):
    """Half precision's scaling, by hand."""

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((self(inputs, training=True) - targets) ** 2, axis=(1, 2))
            scaled = self.optimizer.scale_loss(loss)
        self.optimizer.apply(tape.gradient(scaled, self.trainable_variables), self.trainable_variables)
        return {"loss": tf.reduce_mean(loss)}


class Given(Scaled):
    """The loss of compile, which keeps the samples apart."""

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(inputs, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": tf.reduce_mean(loss)}


results = {}
for kind, loss in (
    (Diffused, keras.losses.mean_absolute_error),
    (OwnLoss, "mse"),
    (Scaled, "mse"),
    (Given, keras.losses.MeanSquaredError(reduction=None)),
):
    made = kind([keras.Input((4, 3)), layers.Dense(5, activation="tanh"), layers.Dense(3)])
    made.compile(keras.optimizers.SGD(0.002, momentum=0.5), loss)
    made.fit(x, y, batch_size=20, epochs=2, verbose=0)
    for place, weight in enumerate(made.get_weights()):
        results[f"{kind.__name__} {place}"] = float(np.abs(weight).sum())

model = Margins([keras.Input((4, 3)), layers.Dense(5, activation="tanh"), layers.Dense(3)])
model.compile(keras.optimizers.SGD(0.01))
history = model.fit(x, y, batch_size=20, epochs=3, verbose=0)
