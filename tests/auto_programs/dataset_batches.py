"""tf.data: slices, batched."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(23)
numbers = np.random.default_rng(23)
x = numbers.normal(size=(75, 6)).astype("float32")
y = (x[:, 0] > x[:, 3]).astype("int32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)

model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
model.compile(
    optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(dataset, epochs=3, verbose=0)
results = model.evaluate(dataset, verbose=0, return_dict=True)
predictions = model.predict(dataset, verbose=0)
