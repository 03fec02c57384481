"""A learning rate by hand: LearningRateScheduler, K.get_value and K.set_value, and the losses kept by a callback."""

import horovod.keras as hvd
import keras
import keras.backend as K
from keras.datasets import mnist
from keras.layers import Activation, Dense, Dropout
from keras.models import Sequential

hvd.init()


class Log(keras.callbacks.Callback):
    def on_train_begin(self, logs={}):
        self.losses = []
        self.rates = []

    def on_batch_end(self, batch, logs={}):
        self.losses.append(logs.get("loss"))

    def on_epoch_end(self, epoch, logs=None):
        self.rates.append(float(K.get_value(self.model.optimizer.lr)))
        logs["lr"] = K.get_value(self.model.optimizer.lr)


class HalveAtTheEnd(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == self.params["epochs"] - 1:
            K.set_value(self.model.optimizer.lr, 0.5 * K.get_value(self.model.optimizer.lr))


(x_train, y_train), (x_test, y_test) = mnist.load_data()
x_train = x_train.reshape(-1, 784).astype("float32")[hvd.rank() :: hvd.size()] / 255
y_train = keras.utils.to_categorical(y_train[hvd.rank() :: hvd.size()], 10)

model = Sequential()
model.add(Dense(64, input_shape=(784,), kernel_initializer="he_normal"))
model.add(Activation("relu"))
model.add(Dropout(rate=0.2))
model.add(Dense(10, activation="softmax"))

opt = keras.optimizers.Adam(lr=0.001, beta_1=0.9, beta_2=0.999, epsilon=None, decay=0.0, amsgrad=False)
opt = hvd.DistributedOptimizer(opt, gradient_predivide_factor=1.0, op=hvd.Average)
model.compile(optimizer=opt, loss="categorical_crossentropy", metrics=["accuracy"])

log = Log()
history = model.fit(
    x_train,
    y_train,
    batch_size=64,
    epochs=3,
    verbose=0,
    callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.001 * hvd.size() * 0.8**epoch, verbose=hvd.rank() == 0),
        HalveAtTheEnd(),
        log,
    ],
)
print("Learning rates by epoch:", ["%.6f" % rate for rate in log.rates])
