"""tf.data: several sources interleaved, and zipped with their labels; whole batches alone."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(28)
numbers = np.random.default_rng(28)
sources = numbers.normal(size=(4, 20, 5)).astype("float32")
labels = (sources[..., 0] > sources[..., 1]).astype("int32")


def interleaved(parts):
    return tf.data.Dataset.from_tensor_slices(parts).interleave(
        tf.data.Dataset.from_tensor_slices, cycle_length=2, block_length=3
    )


dataset = tf.data.Dataset.zip((interleaved(sources), interleaved(labels))).batch(12, drop_remainder=True)

model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dense(2)])
model.compile(
    optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(dataset, epochs=3, verbose=0)
