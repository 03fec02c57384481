"""Batches from a keras.utils.Sequence, read by threads beside the training."""

import math

import horovod.tensorflow.keras as hvd
import numpy as np
from tensorflow import keras


class Batches(keras.utils.Sequence):
    """Every process's own part of the images, in batches that are shuffled after each epoch."""

    def __init__(self, images, labels, batch_size):
        self.images = images[hvd.rank() :: hvd.size()]
        self.labels = labels[hvd.rank() :: hvd.size()]
        self.batch_size = batch_size
        self.on_epoch_end()

    def __len__(self):
        return int(math.floor(len(self.images) / self.batch_size))

    def __getitem__(self, index):
        chosen = self.order[index * self.batch_size : (index + 1) * self.batch_size]
        return self.images[chosen].astype("float32") / 255, keras.utils.to_categorical(self.labels[chosen], 10)

    def on_epoch_end(self):
        self.order = np.random.permutation(len(self.images))


hvd.init()

(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
train = Batches(x_train, y_train, batch_size=64)
test = Batches(x_test, y_test, batch_size=16)

model = keras.Sequential(
    [
        keras.layers.Reshape((28, 28, 1), input_shape=(28, 28)),
        keras.layers.SeparableConv2D(8, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(lr=0.005))
model.compile(loss="categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"])

history = model.fit_generator(
    generator=train,
    validation_data=test,
    epochs=2,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
    verbose=1 if hvd.rank() == 0 else 0,
    use_multiprocessing=False,
    workers=2,
    max_queue_size=10,
)
