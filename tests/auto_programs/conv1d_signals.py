"""Signals by a one-dimensional convolution; the rare class has a weight of its own."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(10)
numbers = np.random.default_rng(10)
signals = numbers.normal(size=(96, 16, 1)).astype("float32")
rare = (numbers.random(96) < 0.2).astype("int32")
signals[rare == 1, 4:8] += 2

model = keras.Sequential(
    [
        keras.Input((16, 1)),
        layers.Conv1D(4, 5, activation="relu"),
        layers.GlobalMaxPooling1D(),
        layers.Dense(2, activation="softmax"),
    ]
)
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(signals, rare, batch_size=16, epochs=3, class_weight={0: 1.0, 1: 4.0}, verbose=0)
