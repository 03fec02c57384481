"""Digits through a bottleneck and back; rank 0 keeps the weights, and everybody reads them for the second half."""

import horovod.keras as hvd
import keras
import numpy as np
from keras.datasets import mnist
from keras.layers import Dense, Input
from keras.models import Model

hvd.init()

(x_train, _), (x_test, _) = mnist.load_data()
x_train = x_train.astype("float32").reshape((len(x_train), np.prod(x_train.shape[1:]))) / 255.0
x_test = x_test.astype("float32").reshape((len(x_test), np.prod(x_test.shape[1:]))) / 255.0
x_train = x_train[hvd.rank() :: hvd.size()]


def autoencoder():
    images = Input(shape=(784,))
    encoded = Dense(32, activation="relu")(images)
    decoded = Dense(784, activation="sigmoid")(encoded)
    model = Model(inputs=images, outputs=decoded)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(lr=0.001 * hvd.size()))
    model.compile(optimizer=optimizer, loss="binary_crossentropy")
    return model


callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]

first_half = autoencoder()
first_half.fit(x_train, x_train, epochs=1, batch_size=128, shuffle=True, callbacks=callbacks, verbose=0)
if hvd.rank() == 0:
    first_half.save_weights("autoencoder.h5")
# Nobody may read before rank 0 has written.
hvd.allreduce(0.0, name="written")

model = autoencoder()
model.load_weights("autoencoder.h5")
before = model.evaluate(x_test, x_test, verbose=0)
history = model.fit(
    x_train,
    x_train,
    epochs=2,
    batch_size=128,
    shuffle=True,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
    validation_data=(x_test, x_test),
    verbose=0,
)
print("Error: %.4f, and before the second half %.4f" % (model.evaluate(x_test, x_test, verbose=0), before))
