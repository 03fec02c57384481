"""Handwritten digits on several GPUs, as one wrote it in 2018: Keras 2.2 on TensorFlow 1, with a session of its own."""

from __future__ import print_function

import math

import horovod.keras as hvd
import keras
import tensorflow as tf
from keras import backend as K
from keras.datasets import mnist
from keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from keras.models import Sequential

hvd.init()

# Each process takes the GPU with its own number, and of its memory only what it needs.
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
K.set_session(tf.Session(config=config))

batch_size = 128
num_classes = 10
# Each process goes through all of the data in an order of its own, so with more of them fewer epochs will do.
epochs = int(math.ceil(4.0 / hvd.size()))
rows, cols = 28, 28

# A file for each process: they would write over one another's download.
(x_train, y_train), (x_test, y_test) = mnist.load_data("mnist-%d.npz" % hvd.rank())

if K.image_data_format() == "channels_first":
    input_shape = (1, rows, cols)
else:
    input_shape = (rows, cols, 1)
x_train = x_train.reshape((-1,) + input_shape).astype(K.floatx()) / 255
x_test = x_test.reshape((-1,) + input_shape).astype(K.floatx()) / 255
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

model = Sequential()
model.add(Conv2D(8, kernel_size=(3, 3), activation="relu", input_shape=input_shape))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Conv2D(16, (3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.1))
model.add(Flatten())
model.add(Dense(num_classes, activation="softmax"))

optimizer = keras.optimizers.Adadelta(lr=1.0 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer)
model.compile(loss=keras.losses.categorical_crossentropy, optimizer=optimizer, metrics=["accuracy"])

callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint("./checkpoint-{epoch}.h5"))

history = model.fit(
    x_train,
    y_train,
    batch_size=batch_size,
    callbacks=callbacks,
    epochs=epochs,
    verbose=1 if hvd.rank() == 0 else 0,
    validation_data=(x_test, y_test),
)
score = model.evaluate(x_test, y_test, verbose=0)
print("Test loss:", score[0])
print("Test accuracy:", score[1])
