"""A model in double precision: Keras 3.15 multiplies matrices in single precision on PyTorch, so the layer is ours."""

import keras
import numpy as np
import torch

keras.utils.set_random_seed(8)
before = keras.config.floatx()
keras.config.set_floatx("float64")
keras.config.set_dtype_policy("float64")
numbers = np.random.default_rng(8)
x = numbers.normal(size=(103, 5))
y = np.sin(x.sum(axis=1, keepdims=True))


class Linear(keras.layers.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight(shape=(self.units, shape[-1]), initializer="glorot_uniform")
        self.bias = self.add_weight(shape=(self.units,), initializer="zeros")

    def call(self, inputs):
        return torch.nn.functional.linear(inputs, self.kernel.value, self.bias.value)


model = keras.Sequential([keras.Input((5,)), Linear(16), keras.layers.Activation("tanh"), Linear(1)])
model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss="mse")
history = model.fit(x, y, batch_size=16, epochs=4, verbose=0)
keras.config.set_floatx(before)
