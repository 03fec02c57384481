"""A convolutional network by the functional API, with Adam and a part of the data kept for validation."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(2)
numbers = np.random.default_rng(2)
images = numbers.normal(size=(100, 8, 8, 1)).astype("float32")
labels = (images[:, :4].mean(axis=(1, 2, 3)) > 0).astype("int32")

inputs = keras.Input((8, 8, 1))
hidden = layers.Conv2D(4, 3, activation="relu")(inputs)
hidden = layers.MaxPooling2D()(hidden)
hidden = layers.Flatten()(hidden)
outputs = layers.Dense(1, activation="sigmoid")(hidden)
model = keras.Model(inputs, outputs)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(images, labels, batch_size=16, epochs=3, validation_split=0.2, verbose=0)
