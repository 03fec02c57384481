"""Images are turned over and moved at random within the model: every rank draws its own."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(35)
numbers = np.random.default_rng(35)
images = numbers.random(size=(96, 8, 8, 1)).astype("float32")
labels = np.arange(96) % 2
images[labels == 1] *= 0.4

drawn = layers.RandomTranslation(0.3, 0.3, fill_mode="wrap")
model = keras.Sequential(
    [keras.Input((8, 8, 1)), layers.RandomFlip("horizontal"), drawn, layers.Flatten(), layers.Dense(2)]
)
model.compile(
    optimizer=keras.optimizers.Adam(0.02),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(images, labels, batch_size=16, epochs=5, verbose=0)
sample = images[:4]
