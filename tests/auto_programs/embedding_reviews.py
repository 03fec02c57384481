"""Reviews as lists of words: gradients of an embedding have rows for the batch's words alone."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(8)
numbers = np.random.default_rng(8)
reviews = numbers.integers(1, 50, (120, 10)).astype("int32")
liked = (reviews < 20).mean(axis=1) > 0.4

model = keras.Sequential(
    [
        keras.Input((10,), dtype="int32"),
        layers.Embedding(50, 8),
        layers.GlobalAveragePooling1D(),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.5), loss="binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")]
)
history = model.fit(reviews, liked.astype("float32"), batch_size=32, epochs=3, validation_split=0.2, verbose=0)
