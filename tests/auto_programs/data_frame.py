"""A table of pandas."""

import keras
import numpy as np
import pandas as pd
from keras import layers

keras.utils.set_random_seed(31)
numbers = np.random.default_rng(31)
table = pd.DataFrame(numbers.normal(size=(90, 4)).astype("float32"), columns=["age", "height", "weight", "pulse"])
target = (table["age"] - table["pulse"] > 0).astype("float32")

model = keras.Sequential([keras.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=keras.optimizers.SGD(0.2), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(table, target, batch_size=16, epochs=3, validation_split=0.2, verbose=0)
predictions = model.predict(table, verbose=0)
