"""A train_step and a test_step of the user's own, as Keras's guide writes them for PyTorch: with clipped gradients."""

import keras
import numpy as np
import torch
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
        self.zero_grad()
        predicted = self(inputs, training=True)
        loss = torch.mean(torch.abs(targets - predicted))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.parameters(), 0.05)
        gradients = [variable.value.grad for variable in self.trainable_weights]
        with torch.no_grad():
            self.optimizer.apply(gradients, self.trainable_weights)
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
model.compile(optimizer=keras.optimizers.SGD(0.5))
history = model.fit(x[:71], y[:71], batch_size=12, epochs=3, validation_data=(x[71:], y[71:]), verbose=0)
