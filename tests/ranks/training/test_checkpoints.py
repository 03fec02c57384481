"""`--checkpoint DIR`: a training that was interrupted ends with the weights of one that was not.

Tolerance: 1e-6 of each tensor's norm. On the machine these tests were written on they were the same to the last bit.
"""

from __future__ import annotations

import json
import re
import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jupyter_ddl.errors import ClusterLost, InvalidInput, RankError
from jupyter_ddl.protocol.cell_options import AutoOptions
from jupyter_ddl.protocol.checkpoint_folder import newest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import RankResult

pytestmark = pytest.mark.mpi

TOLERANCE = 1e-6
EPOCHS = 4
# What all programs here have. `fault` is (fit, epoch): there the last rank raises, or is killed, in the second batch.
COMMON = """
import os, signal, keras, numpy as np, tensorflow as tf
import jupyter_ddl.keras as hvd
hvd.init()
fits = []

class Fault(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        fits.append(self)
    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch
    def on_train_batch_begin(self, batch, logs=None):
        if batch and fault == (len(fits), self.epoch + 1) and rank == world_size - 1:
            if kills:
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError('a fault')

def data():
    return np.random.rand(48, 6).astype('float32'), np.random.randint(0, 3, 48)

def layers():
    return [keras.layers.Dense(8, 'relu'), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3),
            keras.layers.Dense(3, dtype='float32')]
"""
PROGRAM = (
    COMMON
    + """
keras.mixed_precision.set_dtype_policy('float32')
keras.utils.set_random_seed(5 + rank)  # each rank draws its own
x, y = data()

def trained(optimizer, given, distributed={}, steps_per_execution=1, **arguments):
    model = keras.Sequential([keras.Input((6,)), *layers()])
    model.compile(hvd.DistributedOptimizer(optimizer, **distributed), steps_per_execution=steps_per_execution,
                  loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback(),
                 keras.callbacks.ReduceLROnPlateau('loss', patience=2, factor=0.5, min_delta=10.0), Fault()]
    model.fit(given, epochs=epochs, verbose=0, callbacks=callbacks, **arguments)
    return [variable.numpy().astype('float32') for variable in (*model.weights, *model.optimizer.variables)]

# Shuffled by elements in each epoch, and augmented.
pipeline = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(48).map(
    lambda a, b: (a + tf.random.normal((6,), stddev=0.01), b))
ends = [trained(keras.optimizers.Adam(0.01), pipeline.batch(8))]
if more:
    # One iterator goes on over all epochs; two steps at once; 3 passes do not divide an epoch's steps.
    keras.mixed_precision.set_dtype_policy('mixed_float16')
    ends += [trained(keras.optimizers.SGD(0.1, momentum=0.9), pipeline.repeat().batch(8), steps_per_epoch=4,
                     steps_per_execution=2, distributed={'backward_passes_per_step': 3})]
after = float(np.random.rand())
"""
)
# Without a seed: the ranks draw one together, and go on with it.
AUTO_PROGRAM = (
    COMMON
    + """
x, y = data()

class Shuffled(keras.utils.PyDataset):
    order = np.arange(48)
    def __len__(self):
        return 6
    def __getitem__(self, index):
        rows = self.order[8 * index : 8 * index + 8]
        return x[rows], y[rows]
    def on_epoch_end(self):
        self.order = np.random.permutation(self.order)

def trained(*given, **arguments):
    model = keras.Sequential([keras.Input((6,)), *layers(), keras.layers.Dense(classes)])
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(*given, epochs=epochs, verbose=0, **arguments)
    return [variable.numpy() for variable in (*model.weights, *model.optimizer.variables)]

ends = [trained(x, y, batch_size=4), trained(Shuffled(), shuffle=True)]
"""
)


def run(session: Session, code: str, folder: Path, **settings: Any) -> RankResult:
    given = {"fault": (0, 0), "epochs": EPOCHS, "kills": False, "more": True, "classes": 3} | settings
    auto = AutoOptions() if code is AUTO_PROGRAM else None
    session.push(given)
    return session.run(code, checkpoint=folder, auto=auto, timeout_s=200).ranks[0]


def assert_same(found: dict[int, Any], wanted: dict[int, Any]) -> None:
    for rank, fits in wanted.items():
        for fit, (mine, other) in enumerate(zip(found[rank], fits, strict=True), start=1):
            for number, (a, b) in enumerate(zip(mine, other, strict=True)):
                difference = np.linalg.norm((a - b).ravel()) / max(np.linalg.norm(b.ravel()), 1e-30)
                assert difference <= TOLERANCE, f"rank {rank}, fit {fit}, variable {number}: {difference}"


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def whole(ranks: Callable[[int], Session], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    """Return the folder and the ends of an uninterrupted training."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(ranks(2), PROGRAM, folder).stdout == ""
    return folder, ranks(2).pull("ends")


def test_the_ends_are_those_of_an_uninterrupted_training(pair: Session, whole: tuple[Path, dict[int, Any]]) -> None:
    folder, wanted = whole
    after = pair.pull("after")
    kept = [f"fit-{fit}/epoch-{epoch}.npz" for fit in (1, 2) for epoch in (3, 4)]
    assert names(folder) == kept
    # As if it had ended in the last epoch: before the file was there, and while it was written to a full disk.
    (folder / "fit-1" / "epoch-4.npz").unlink()
    broken = folder / "fit-2" / "epoch-4.npz"
    broken.write_bytes(broken.read_bytes()[:-100])
    resumed = run(pair, PROGRAM, folder)
    assert f"WARNING: {broken} is cut off or damaged, and is skipped." in resumed.stderr
    assert resumed.stdout == "".join(
        f"resumes after epoch 3 of 4 from {folder}/fit-{fit}/epoch-3.npz\n" for fit in (1, 2)
    )
    assert_same(pair.pull("ends"), wanted)
    assert pair.pull("after") == after
    assert names(folder) == kept


def test_auto_and_what_is_refused(pair: Session, tmp_path: Path) -> None:
    run(pair, AUTO_PROGRAM, tmp_path)
    wanted = pair.pull("ends")
    for fit in (1, 2):
        (tmp_path / f"fit-{fit}" / "epoch-4.npz").unlink()
    # Numbers that were drawn meanwhile, and a seed that this cell does not set, change nothing.
    pair.run("keras.utils.set_random_seed(99)")
    assert "resumes after epoch 3 of 4" in run(pair, AUTO_PROGRAM, tmp_path).stdout
    assert_same(pair.pull("ends"), wanted)
    told = "A checkpoint must be resumed with the model and optimizer that it was made of."
    with pytest.raises(RankError, match=told) as raised:
        run(pair, AUTO_PROGRAM, tmp_path, classes=4)
    received = r"fit-1/epoch-4.npz with .*kernel \[3, 3\] float32, where this model has .*kernel \[3, 4\] float32\."
    assert re.search(received, str(raised.value)), str(raised.value)
    assert len(raised.value.failures) == pair.world_size
    for refused in ({"ranks": [0]}, {"independent": True}):
        with pytest.raises(InvalidInput, match="--checkpoint saves the one model that all ranks train"):
            pair.run("pass", checkpoint=tmp_path, **refused)


def test_a_checkpoint_of_other_ranks(pair: Session, whole: tuple[Path, dict[int, Any]], tmp_path: Path) -> None:
    """The file of a whole training, as one rank would have written it, on two."""
    ends = whole[1][0][:1]
    made = whole[0] / "fit-1" / "epoch-4.npz"
    file = tmp_path / "fit-1" / "epoch-4.npz"
    file.parent.mkdir()
    with zipfile.ZipFile(made) as source, zipfile.ZipFile(file, "w") as copy:
        for name in source.namelist():
            if name == "checkpoint.json":
                contents = json.loads(source.read(name))
                copy.writestr(name, json.dumps(contents | {"world_size": 1, "draws": contents["draws"][:1]}))
            elif not name.startswith("rank-1/"):
                copy.writestr(name, source.read(name))
    told = run(pair, PROGRAM, tmp_path, more=False).stdout
    assert told == f"trained to epoch 4 of 4 before: taken from {file}; delete it to start over\n"
    assert_same(pair.pull("ends"), {0: ends, 1: ends})
    told = run(pair, PROGRAM, tmp_path, more=False, epochs=5).stdout
    assert told == f"resumes after epoch 4 of 5 from {file} (of 1 ranks: random numbers from here on are new)\n"
    # Its weights, its optimizer's moments and steps went on from there.
    scalars = [float(array) for array in pair.pull("ends")[0][0] if array.shape == ()]
    assert 5 * 6 in scalars, scalars


@pytest.mark.slow
def test_another_number_of_ranks(ranks: Callable[[int], Session], tmp_path: Path) -> None:
    run(ranks(2), PROGRAM, tmp_path, more=False, epochs=3)
    wanted = ranks(2).pull("ends", [0])
    alone = ranks(1)
    file = tmp_path / "fit-1" / "epoch-3.npz"
    told = run(alone, PROGRAM, tmp_path, more=False, epochs=3).stdout
    assert told == f"trained to epoch 3 of 3 before: taken from {file}; delete it to start over\n"
    assert_same(alone.pull("ends"), wanted)
    told = run(alone, PROGRAM, tmp_path, more=False, epochs=4).stdout
    assert told == f"resumes after epoch 3 of 4 from {file} (of 2 ranks: random numbers from here on are new)\n"
    # Its weights, its optimizer's moments and steps went on from there.
    scalars = [float(array) for array in alone.pull("ends")[0][0] if array.shape == ()]
    assert 4 * 6 in scalars, scalars


# The last of this file: the ranks that are started anew know nothing of what others have run.
def test_a_rank_that_is_killed(pair: Session, whole: tuple[Path, dict[int, Any]], tmp_path: Path) -> None:
    wanted = {rank: fits[:1] for rank, fits in whole[1].items()}
    with pytest.raises(ClusterLost):
        run(pair, PROGRAM, tmp_path, more=False, fault=(1, 3), kills=True)
    found = newest(tmp_path)
    assert found is not None
    assert (found.fit, found.epoch) == (1, 2)
    told = run(pair, PROGRAM, tmp_path, more=False).stdout
    assert told == f"resumes after epoch 2 of 4 from {found.path}\n"
    assert_same(pair.pull("ends"), wanted)
