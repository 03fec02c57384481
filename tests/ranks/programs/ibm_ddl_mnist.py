"""Keras's MNIST convnet with IBM's DDL, as the slides of WML CE change it: split data, a larger rate, two callbacks."""

import ddl
import numpy as np
from tensorflow.python import keras as keras
from tensorflow.python.keras import backend as K
from tensorflow.python.keras.datasets import mnist
from tensorflow.python.keras.layers import Conv2D, Dense, Dropout, Flatten, MaxPooling2D
from tensorflow.python.keras.models import Sequential

batch_size = 128
num_classes = 10
epochs = 2
img_rows, img_cols = 28, 28

(x_train, y_train), (x_test, y_test) = mnist.load_data()

if K.image_data_format() == "channels_first":
    x_train = x_train.reshape(x_train.shape[0], 1, img_rows, img_cols)
    x_test = x_test.reshape(x_test.shape[0], 1, img_rows, img_cols)
    input_shape = (1, img_rows, img_cols)
else:
    x_train = x_train.reshape(x_train.shape[0], img_rows, img_cols, 1)
    x_test = x_test.reshape(x_test.shape[0], img_rows, img_cols, 1)
    input_shape = (img_rows, img_cols, 1)

# DDL: the full test data, for the accuracy at the end.
x_test_full = x_test.astype("float32") / 255
y_test_full = keras.utils.to_categorical(y_test, num_classes)

# DDL: this rank's part of the training and test data.
x_train = np.array_split(x_train, ddl.size())[ddl.rank()]
x_test = np.array_split(x_test, ddl.size())[ddl.rank()]
x_train = x_train.astype("float32")
x_test = x_test.astype("float32")
x_train /= 255
x_test /= 255
print("x_train shape:", x_train.shape)
y_train = np.array_split(y_train, ddl.size())[ddl.rank()]
y_test = np.array_split(y_test, ddl.size())[ddl.rank()]
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

model = Sequential()
model.add(Conv2D(32, kernel_size=(3, 3), activation="relu", input_shape=input_shape))
model.add(Conv2D(64, (3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.25))
model.add(Flatten())
model.add(Dense(128, activation="relu"))
model.add(Dropout(0.5))
model.add(Dense(num_classes, activation="softmax"))

# DDL: the learning rate grows with the number of GPUs.
model.compile(
    loss=keras.losses.categorical_crossentropy,
    optimizer=keras.optimizers.Adadelta(lr=1.0 * ddl.size()),
    metrics=["accuracy"],
)

callbacks = list()
# DDL: the metrics of all ranks, first; the variables of rank 0, last.
callbacks.append(ddl.DDLCallback())
callbacks.append(ddl.DDLGlobalVariablesCallback())

history = model.fit(
    x_train,
    y_train,
    batch_size=batch_size,
    epochs=epochs,
    verbose=1 if ddl.rank() == 0 else 0,
    validation_data=(x_test, y_test),
    callbacks=callbacks,
)

# DDL: the accuracy on all test data, on rank 0 only.
if ddl.rank() == 0:
    score = model.evaluate(x_test_full, y_test_full, verbose=0)
    print("Test loss:", score[0])
    print("Test accuracy:", score[1])
