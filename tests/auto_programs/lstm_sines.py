"""The next value of a sine, by an LSTM whose gradients are clipped by their norm."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(9)
time = np.arange(130) / 5
wave = np.sin(time).astype("float32")
windows = np.stack([wave[i : i + 8] for i in range(120)])[..., None]
following = wave[8:128]

model = keras.Sequential([keras.Input((8, 1)), layers.LSTM(6), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(0.01, clipnorm=0.5), loss="mse", metrics=["mae"])
history = model.fit(windows, following, batch_size=24, epochs=3, verbose=0)
predictions = model.predict(windows, verbose=0)
