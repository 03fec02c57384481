"""The next value of a curve from the ones before: a recurrent network, stopped early by the error of all."""

import horovod.keras as hvd
import numpy as np
from keras.callbacks import EarlyStopping
from keras.layers import LSTM, Dense
from keras.models import Sequential
from keras.optimizers import RMSprop

hvd.init()
np.random.seed(hvd.rank())

look_back = 12


def windows(count):
    start = np.random.uniform(0, 100, size=(count, 1))
    speed = np.random.uniform(0.2, 0.6, size=(count, 1))
    curve = np.sin(start + speed * np.arange(look_back + 1))
    return curve[:, :-1, np.newaxis], curve[:, -1:]


x_train, y_train = windows(512)
x_test, y_test = windows(64)

model = Sequential()
model.add(LSTM(16, input_shape=(look_back, 1)))
model.add(Dense(1))
model.compile(loss="mse", optimizer=hvd.DistributedOptimizer(RMSprop(lr=0.005)), metrics=["mae"])

history = model.fit(
    x_train,
    y_train,
    batch_size=32,
    epochs=4,
    validation_data=(x_test, y_test),
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        EarlyStopping(monitor="val_loss", patience=2, mode="min"),
    ],
    verbose=0,
)
print("Error on rank %d: %.4f" % (hvd.rank(), model.evaluate(x_test, y_test, verbose=0)[1]))
