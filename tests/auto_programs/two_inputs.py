"""Numbers and words, as a dictionary of arrays."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(5)
random = np.random.default_rng(5)
data = {
    "numbers": random.normal(size=(96, 4)).astype("float32"),
    "words": random.integers(0, 20, (96, 6)).astype("int32"),
}
target = (data["numbers"][:, 0] + data["words"].mean(axis=1) / 10 > 1).astype("float32")

numbers = keras.Input((4,), name="numbers")
words = keras.Input((6,), dtype="int32", name="words")
meaning = layers.GlobalAveragePooling1D()(layers.Embedding(20, 4)(words))
outputs = layers.Dense(1, activation="sigmoid")(layers.Concatenate()([numbers, meaning]))
model = keras.Model({"numbers": numbers, "words": words}, outputs)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(data, target, batch_size=24, epochs=3, validation_split=0.25, verbose=0)
predictions = model.predict(data, batch_size=24, verbose=0)
