"""A program as people wrote it in 2018, on ranks: it needs `rank.install`, and not `rank.script_main`.

Run by test_legacy_ranks.py: `python legacy_program.py FOLDER`; rank K leaves FOLDER/rank-K.json.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from jupyter_ddl.rank.install import install

install()

# --- from here on, as it was written ---------------------------------------------------------------------------
import horovod.keras as hvd  # noqa: E402
import horovod.tensorflow as hvd_tensorflow  # noqa: E402
import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import backend as K  # noqa: E402, N812
from keras.layers.convolutional import Conv2D  # noqa: E402
from keras.layers.core import Dense, Dropout, Flatten  # noqa: E402
from keras.models import Sequential  # noqa: E402
from keras.preprocessing.image import ImageDataGenerator  # noqa: E402
from keras.utils import np_utils  # noqa: E402

hvd.init()
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
K.set_session(tf.Session(config=config))

folder = Path(sys.argv[1])
generator = np.random.RandomState(3)
x = generator.rand(96, 8, 8, 1).astype("float32")
y = np_utils.to_categorical((x.mean(axis=(1, 2, 3)) > 0.5).astype(int), 2)

model = Sequential()
model.add(Conv2D(4, kernel_size=(3, 3), activation="relu", input_shape=(8, 8, 1)))
model.add(Flatten())
model.add(Dropout(0.1))
model.add(Dense(2, activation="softmax"))
opt = keras.optimizers.SGD(lr=0.02 * hvd.size(), momentum=0.9, decay=1e-3)
opt = hvd.DistributedOptimizer(opt)
model.compile(loss="categorical_crossentropy", optimizer=opt, metrics=["accuracy"], experimental_run_tf_function=False)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.MetricAverageCallback(),
    hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=2, verbose=0),
    keras.callbacks.ReduceLROnPlateau(monitor="val_acc", patience=10, verbose=1),
]
if hvd.rank() == 0:
    callbacks.append(keras.callbacks.ModelCheckpoint(str(folder / "checkpoint-{epoch}-{val_acc:.2f}.h5"), period=2))
train_iter = ImageDataGenerator(width_shift_range=0.1).flow(x, y, batch_size=8)
test_iter = ImageDataGenerator().flow(x, y, batch_size=8)
history = model.fit_generator(
    train_iter,
    steps_per_epoch=len(train_iter) // hvd.size(),
    callbacks=callbacks,
    epochs=4,
    verbose=0,
    workers=2,
    validation_data=test_iter,
    validation_steps=3 * len(test_iter) // hvd.size(),
)
score = hvd.allreduce(model.evaluate_generator(test_iter, len(test_iter), workers=2))
own = float(hvd.rank())
averages = [
    float(hvd.allreduce(own, average=True)),
    float(hvd.allreduce(own, average=False)),
    float(hvd_tensorflow.allreduce(tf.constant(own), average=True)),
    float(hvd_tensorflow.allreduce(tf.constant(own), average=False)),
]
variable = tf.Variable([own])
plain = tf.keras.optimizers.Adam(lr=0.5 + hvd.rank())
plain.apply_gradients(zip([tf.constant([0.0])], [variable], strict=True))
hvd_tensorflow.broadcast_variables([variable, *plain.variables()], root_rank=0)
K.set_value(model.optimizer.lr, 0.5)

# --- and no further --------------------------------------------------------------------------------------------
from jupyter_ddl.keras import weights_checksum  # noqa: E402
from jupyter_ddl.legacy import printed_rows  # noqa: E402

(folder / f"rank-{hvd.rank()}.json").write_text(
    json.dumps(
        {
            "checksum": weights_checksum(model),
            "steps": int(model.optimizer.iterations.numpy()),
            "acc": history.history["val_acc"],
            "score": [float(one) for one in score],
            "lr": float(K.get_value(model.optimizer.lr)),
            "decay": model.optimizer.decay,
            "said": printed_rows(),
            "averages": averages,
            "broadcast": [float(variable[0]), float(plain.lr.numpy())],
            "eager": tf.executing_eagerly(),
        }
    )
)
