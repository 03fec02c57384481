"""tf.data: another order in each epoch, from a seed."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(24)
numbers = np.random.default_rng(24)
x = numbers.normal(size=(90, 5)).astype("float32")
y = x.prod(axis=1, keepdims=True)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(90, seed=5).batch(20)

model = keras.Sequential([keras.Input((5,)), layers.Dense(12, activation="tanh"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1, momentum=0.9), loss="mse", metrics=["mae"])
history = model.fit(dataset, epochs=3, verbose=0)
