"""A small VGG in the spelling of Keras 2.1 (2017): np_utils, layers by module, lr and decay."""

import horovod.keras as hvd
import keras
from keras.callbacks import EarlyStopping, ModelCheckpoint, ReduceLROnPlateau, TensorBoard
from keras.datasets import mnist
from keras.layers.convolutional import Conv2D, MaxPooling2D
from keras.layers.core import Activation, Dense, Dropout, Flatten
from keras.layers.normalization import BatchNormalization
from keras.models import Sequential
from keras.optimizers import SGD
from keras.utils import np_utils

hvd.init()

(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_train = x_train.reshape(-1, 28, 28, 1).astype("float32") / 255
x_test = x_test.reshape(-1, 28, 28, 1).astype("float32") / 255
Y_train = np_utils.to_categorical(y_train, 10)
Y_test = np_utils.to_categorical(y_test, 10)

# Its own part of the images for each process.
share = len(x_train) // hvd.size()
x_train = x_train[hvd.rank() * share : (hvd.rank() + 1) * share]
Y_train = Y_train[hvd.rank() * share : (hvd.rank() + 1) * share]

model = Sequential()
model.add(Conv2D(8, (3, 3), padding="same", input_shape=(28, 28, 1)))
model.add(BatchNormalization())
model.add(Activation("relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Conv2D(16, (3, 3), padding="same"))
model.add(BatchNormalization())
model.add(Activation("relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Dropout(0.1))
model.add(Flatten())
model.add(Dense(10))
model.add(Activation("softmax"))

sgd = SGD(lr=0.01 * hvd.size(), decay=1e-6, momentum=0.9, nesterov=True)
model.compile(loss="categorical_crossentropy", optimizer=hvd.DistributedOptimizer(sgd), metrics=["acc"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1, epsilon=0.001, min_lr=1e-5),
    EarlyStopping(monitor="val_acc", min_delta=0.0001, patience=2, mode="auto"),
]
if hvd.rank() == 0:
    callbacks.append(
        ModelCheckpoint(
            "best-{epoch:02d}-{val_acc:.2f}.hdf5", monitor="val_acc", save_best_only=True, mode="max", period=1
        )
    )
    callbacks.append(TensorBoard(log_dir="./tensorboard", histogram_freq=0, write_graph=False))

history = model.fit(
    x_train,
    Y_train,
    batch_size=64,
    epochs=2,
    verbose=1 if hvd.rank() == 0 else 0,
    validation_data=(x_test, Y_test),
    callbacks=callbacks,
)
if hvd.rank() == 0:
    print("Accuracy by epoch:", history.history["acc"], history.history["val_acc"])
    model.save("moved_names.h5")
    again = keras.models.load_model("moved_names.h5")
    print("As saved: %.3f" % again.evaluate(x_test, Y_test, verbose=0)[1])
