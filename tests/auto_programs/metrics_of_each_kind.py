"""Metrics that are means, and metrics that are not: what the ranks counted is put together, not averaged."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(19)
numbers = np.random.default_rng(19)
x = numbers.normal(size=(100, 6)).astype("float32")
labels = np.argmax(x[:, :4], axis=1)
y = keras.utils.to_categorical(labels, 4)

model = keras.Sequential(
    [keras.Input((6,)), layers.Dense(12, activation="relu"), layers.Dense(4, activation="softmax")]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.2),
    loss="categorical_crossentropy",
    metrics=[
        "accuracy",
        keras.metrics.TopKCategoricalAccuracy(2, name="top_2"),
        keras.metrics.AUC(name="auc"),
        keras.metrics.Precision(name="precision"),
        keras.metrics.Recall(name="recall"),
        keras.metrics.F1Score(average="macro", name="f1"),
        keras.metrics.OneHotMeanIoU(4, name="iou"),
        keras.metrics.RootMeanSquaredError(name="rmse"),
        keras.metrics.CosineSimilarity(name="cosine"),
        keras.metrics.MeanAbsoluteError(name="mae"),
    ],
)
history = model.fit(x[:76], y[:76], batch_size=20, epochs=2, validation_data=(x[76:], y[76:]), verbose=0)
results = model.evaluate(x, y, batch_size=20, verbose=0, return_dict=True)
