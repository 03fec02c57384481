"""A train_step and a test_step of the user's own, with a tape and a metric of their own."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(4)
numbers = np.random.default_rng(4)
x = numbers.normal(size=(90, 5)).astype("float32")
y = np.sin(x.sum(axis=1, keepdims=True)).astype("float32")


class Regressor(keras.Model):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.error = keras.metrics.MeanSquaredError(name="error")

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            predicted = self(inputs, training=True)
            loss = tf.reduce_mean(tf.abs(targets - predicted))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.error.update_state(targets, predicted)
        return {"error": self.error.result()}

    def test_step(self, data):
        inputs, targets = data
        self.error.update_state(targets, self(inputs, training=False))
        return {"error": self.error.result()}

    @property
    def metrics(self):
        return [self.error]


inputs = keras.Input((5,))
model = Regressor(inputs, layers.Dense(1)(layers.Dense(8, activation="tanh")(inputs)))
model.compile(optimizer=keras.optimizers.SGD(0.05))
history = model.fit(x[:72], y[:72], batch_size=12, epochs=3, validation_data=(x[72:], y[72:]), verbose=0)
