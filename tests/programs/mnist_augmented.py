"""Digits, shifted and turned a little as they are read: generators, warm-up and plateaus, as in 2019."""

import horovod.keras as hvd
import keras
import numpy as np
import tensorflow as tf
from keras.datasets import mnist
from keras.layers import Activation, Conv2D, Dense, Flatten, MaxPooling2D
from keras.models import Sequential
from keras.preprocessing.image import ImageDataGenerator

hvd.init()

config = tf.compat.v1.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
tf.compat.v1.keras.backend.set_session(tf.compat.v1.Session(config=config))

batch_size = 64
num_classes = 10
epochs = 3

(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_train = np.expand_dims(x_train, -1).astype("float32") / 255
x_test = np.expand_dims(x_test, -1).astype("float32") / 255
y_train = keras.utils.to_categorical(y_train, num_classes)
y_test = keras.utils.to_categorical(y_test, num_classes)

model = Sequential(
    [
        Conv2D(8, (3, 3), input_shape=x_train.shape[1:]),
        Activation("relu"),
        MaxPooling2D((2, 2)),
        Flatten(),
        Dense(32, activation="relu"),
        Dense(num_classes, activation="softmax"),
    ]
)

# A batch that is larger by the number of GPUs takes larger steps.
optimizer = keras.optimizers.SGD(lr=0.05 * hvd.size(), momentum=0.9)
optimizer = hvd.DistributedOptimizer(optimizer)
model.compile(loss="categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"])

callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    # Before the callbacks that look at the metrics: they must see the average of all processes.
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=2, verbose=1),
    keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=2, verbose=1),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint("./augmented-{epoch}.h5"))

train_batches = ImageDataGenerator(rotation_range=8, width_shift_range=0.08, height_shift_range=0.08, zoom_range=0.08)
train_batches = train_batches.flow(x_train, y_train, batch_size=batch_size)
test_batches = ImageDataGenerator().flow(x_test, y_test, batch_size=batch_size)

history = model.fit_generator(
    train_batches,
    steps_per_epoch=len(train_batches) // hvd.size() // 2,
    callbacks=callbacks,
    epochs=epochs,
    verbose=1 if hvd.rank() == 0 else 0,
    workers=4,
    validation_data=test_batches,
    validation_steps=len(test_batches) // hvd.size(),
)

score = hvd.allreduce(model.evaluate_generator(test_batches, len(test_batches), workers=4))
if hvd.rank() == 0:
    print("Test loss: %.4f" % score[0])
    print("Test accuracy: %.4f" % score[1])
