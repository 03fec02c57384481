"""A program of old spellings and the same program modernised: the same training, on two ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.modernise.rewrite import rewrite

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

TIMEOUT_S = 280.0

OF_2018 = """
import numpy as np
import keras
import horovod.keras as hvd
import tensorflow as tf
from keras import backend as K
from keras.layers.core import Dense, Dropout
from keras.layers.normalization import BatchNormalization
from keras.utils import np_utils

hvd.init()
config = tf.ConfigProto()
config.gpu_options.allow_growth = True
config.gpu_options.visible_device_list = str(hvd.local_rank())
K.set_session(tf.Session(config=config))

keras.utils.set_random_seed(1)
data = np.random.default_rng(hvd.rank())
x = data.normal(size=(96, 6)).astype('float32')
y = np_utils.to_categorical(x[:, 0] > 0, 2)
model = keras.models.Sequential([Dense(8, activation='tanh'), BatchNormalization(), Dense(2, activation='softmax')])
opt = hvd.DistributedOptimizer(keras.optimizers.SGD(lr=0.05 * hvd.size(), decay=0.01, momentum=0.9))
model.compile(loss='categorical_crossentropy', optimizer=opt, metrics=['acc'])
history = model.fit(
    x, y, batch_size=16, nb_epoch=3, verbose=0, shuffle=False,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
)
told = history.history['loss'] + history.history['acc']
"""

OF_2020 = """
import numpy as np
import tensorflow as tf
import horovod.tensorflow.keras as hvd

hvd.init()
gpus = tf.config.experimental.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.experimental.set_visible_devices(gpus[hvd.local_rank()], 'GPU')

class Batches(tf.keras.utils.Sequence):
    def __init__(self):
        data = np.random.default_rng(hvd.rank())
        self.x = data.normal(size=(96, 6)).astype('float32')

    def __len__(self):
        return 6

    def __getitem__(self, index):
        x = self.x[16 * index : 16 * index + 16]
        return x, x.sum(axis=1, keepdims=True)

tf.random.set_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation='tanh'), tf.keras.layers.Dense(1)])
opt = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(lr=0.01 * hvd.size()))
model.compile(loss='mse', optimizer=opt, experimental_run_tf_function=False)
callbacks = [
    hvd.callbacks.BroadcastGlobalVariablesCallback(0),
    hvd.callbacks.LearningRateWarmupCallback(warmup_epochs=2),
]
history = model.fit_generator(
    Batches(), 6, epochs=3, verbose=0, shuffle=False, workers=2, max_queue_size=4, callbacks=callbacks
)
told = history.history['loss'] + [float(tf.keras.backend.get_value(opt.lr))]
told.append(float(hvd.allreduce(np.float32(told[0]), average=True)))
"""

DRIVER = """
import json, runpy, sys
for program in sys.argv[1:]:
    names = runpy.run_path(program)
    told = [float(x) for x in names["told"]] + [float((w.numpy() ** 2).sum()) for w in names["model"].weights]
    print("told " + json.dumps(told))
"""


def trained(folder: Path, programs: dict[str, str]) -> list[list[float]]:
    """Return what each rank tells of each program's training: losses, accuracies, rates, squares of weights."""
    for name, text in programs.items():
        (folder / name).write_text(text)
    (folder / "driver.py").write_text(DRIVER)
    finished = subprocess.run(
        [sys.executable, "-m", "jupyter_ddl.cli", "run", "-n", "2", "driver.py", *programs],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    lines = [line for line in finished.stdout.splitlines() if "told" in line]
    by_rank = {rank: [line for line in lines if f"{rank}" in line.partition("]")[0]] for rank in "01"}
    return [json.loads(line.partition("told ")[2]) for rank in "01" for line in by_rank[rank]]


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S + 20)
def test_both_forms_of_a_program_train_the_same(tmp_path: Path) -> None:
    old = {"of_2018.py": OF_2018, "of_2020.py": OF_2020}
    rewritten = {name: rewrite(text, name) for name, text in old.items()}
    assert not [leftover for program in rewritten.values() for leftover in program.leftovers]
    text = "".join(program.code for program in rewritten.values())
    for spelling in ("horovod", "lr=", "nb_epoch", "acc'", "Session", "generator", "workers", "average=", "np_utils"):
        assert spelling not in text.replace("initial_lr=", ""), spelling
    before = trained(tmp_path, old)
    after = trained(tmp_path, {name: program.code for name, program in rewritten.items()})
    assert len(before) == 4
    for one, other in zip(before, after, strict=True):
        assert one == pytest.approx(other, rel=1e-5)
