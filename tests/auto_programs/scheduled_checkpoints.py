"""A rate by the epoch, and a checkpoint of the best epoch, from which the model is read."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(12)
numbers = np.random.default_rng(12)
x = numbers.normal(size=(90, 6)).astype("float32")
y = (x**2).sum(axis=1, keepdims=True)

model = keras.Sequential([keras.Input((6,)), layers.Dense(12, activation="relu"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.02), loss="mse", metrics=["mae"])
history = model.fit(
    x,
    y,
    batch_size=18,
    epochs=4,
    validation_split=0.2,
    callbacks=[
        keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5 if epoch == 2 else rate),
        keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True),
    ],
    verbose=0,
)
best = keras.models.load_model("best.keras")
results = {
    "learning rate": float(model.optimizer.learning_rate),
    **best.evaluate(x, y, verbose=0, return_dict=True),
}
