"""A model is saved with its optimizer, read back, and trained on."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(22)
numbers = np.random.default_rng(22)
x = numbers.normal(size=(80, 6)).astype("float32")
y = (x[:, :2].sum(axis=1) > 0).astype("float32")

model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
model.save("model.keras")
model = keras.models.load_model("model.keras")
history = model.fit(x, y, batch_size=16, epochs=2, verbose=0)
results = {"iterations": int(model.optimizer.iterations)}
