"""tf.data: bytes to numbers, cached, batched, prefetched; and the same for validation."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(25)
numbers = np.random.default_rng(25)
images = numbers.integers(0, 256, (88, 6, 6), dtype="uint8")
labels = (images[:, :3].mean(axis=(1, 2)) > 127).astype("int32")


def normalized(image, label):
    return tf.cast(image, "float32") / 255, label


def pipeline(first, last):
    slices = tf.data.Dataset.from_tensor_slices((images[first:last], labels[first:last]))
    return slices.map(normalized, num_parallel_calls=tf.data.AUTOTUNE).cache().batch(12).prefetch(tf.data.AUTOTUNE)


model = keras.Sequential([keras.Input((6, 6)), layers.Flatten(), layers.Dense(8, activation="relu"), layers.Dense(2)])
model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(pipeline(0, 65), epochs=3, validation_data=pipeline(65, 88), verbose=0)
