"""Gradients that the program changes before the update: clipped, with noise, by sign; and no optimizer at all."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(42)
numbers = np.random.default_rng(42)
x = numbers.normal(size=(102, 6)).astype("float32")
y = np.cos(x.sum(axis=1, keepdims=True)).astype("float32")


class Clipped(keras.Sequential):
    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(inputs, training=True))
        gradients = tape.gradient(loss, self.trainable_variables)
        clipped, _ = tf.clip_by_global_norm(gradients, 0.05)
        noisy = [gradient + 0.01 * tf.random.normal(gradient.shape) for gradient in clipped]
        self.optimizer.apply_gradients(zip(noisy, self.trainable_variables, strict=True))
        return {"loss": loss}


class BySign(keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars):
        return super().apply_gradients([(tf.sign(gradient), variable) for gradient, variable in grads_and_vars])


class Sharpness(keras.Sequential):
    """Gradients at weights that the whole batch's gradient has moved, and no optimizer for the update."""

    def train_step(self, data):
        inputs, targets = data
        variables = self.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(inputs, training=True))
        first = tape.gradient(loss, variables)
        moves = [0.05 * gradient / (tf.linalg.global_norm(first) + 1e-12) for gradient in first]
        for variable, move in zip(variables, moves, strict=True):
            variable.assign_add(move)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=targets, y_pred=self(inputs, training=True))
        second = tape.gradient(loss, variables)
        for variable, move, gradient in zip(variables, moves, second, strict=True):
            variable.assign_sub(move + 0.1 * gradient)
        self._loss_tracker.update_state(loss, sample_weight=tf.shape(targets)[0])
        return {"loss": self._loss_tracker.result()}


def layers_of():
    return [keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(1)]


ATTRIBUTES = keras.optimizers.Adam(
    0.1, global_clipnorm=0.02, gradient_accumulation_steps=2, use_ema=True, ema_overwrite_frequency=3
)
results = {}
for name, made, optimizer in (
    ("sharpness", Sharpness(layers_of()), "sgd"),
    ("sign", keras.Sequential(layers_of()), BySign(0.003)),
    ("attributes", keras.Sequential(layers_of()), ATTRIBUTES),
):
    made.compile(optimizer, "mse")
    made.fit(x, y, batch_size=20, epochs=2, verbose=0)
    for place, weight in enumerate(made.get_weights()):
        results[f"{name} {place}"] = float(np.abs(weight).sum())

model = Clipped(layers_of())
model.compile(keras.optimizers.SGD(0.5), "mse")
model.fit(x, y, batch_size=20, epochs=3, verbose=0)
predictions = model.predict(x, verbose=0)
