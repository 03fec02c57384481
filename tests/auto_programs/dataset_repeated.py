"""tf.data without end: epochs have as many steps as fit is told."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(26)
numbers = np.random.default_rng(26)
x = numbers.normal(size=(64, 5)).astype("float32")
y = x[:, :1] * 2 - x[:, 1:2]
slices = tf.data.Dataset.from_tensor_slices((x, y))

model = keras.Sequential([keras.Input((5,)), layers.Dense(6, activation="relu"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(0.02), loss="mse", metrics=["mae"])
history = model.fit(
    slices.shuffle(64, seed=1).repeat().batch(12),
    steps_per_epoch=4,
    epochs=3,
    validation_data=slices.repeat().batch(10),
    validation_steps=3,
    verbose=0,
)
results = {"iterations": int(model.optimizer.iterations)}
