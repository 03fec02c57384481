"""tf.data from a Python generator: nobody knows how long it is."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(27)
numbers = np.random.default_rng(27)
x = numbers.normal(size=(58, 4)).astype("float32")
y = np.abs(x).sum(axis=1, keepdims=True)


def samples():
    yield from zip(x, y, strict=True)


signature = (tf.TensorSpec((4,), "float32"), tf.TensorSpec((1,), "float32"))
dataset = tf.data.Dataset.from_generator(samples, output_signature=signature).batch(10)

model = keras.Sequential([keras.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.02), loss="mse")
history = model.fit(dataset, epochs=2, verbose=0)
