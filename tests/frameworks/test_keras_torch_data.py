"""Data of each kind for Keras on PyTorch, and options of Horovod's optimizer, against one process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from ranks.sizes import slow_but

from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

GLOBAL = AutoOptions(batch="global")
PER_RANK = AutoOptions(scale_lr="none", warmup_epochs=0)
BEGIN = """
import keras, numpy as np, torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(101, 4)).astype("float32")
y = x.sum(1, keepdims=True)
rows, all_rows = TensorDataset(*map(torch.as_tensor, (x[:96], y[:96]))), TensorDataset(*map(torch.as_tensor, (x, y)))
def made(outputs=1):
    first = [keras.Input((4,)), keras.layers.Dense(8, activation="tanh")]
    return keras.Sequential([*first, keras.layers.Dense(outputs)])
class Stream(IterableDataset):
    def __iter__(self):
        for start in range(0, 96, SIZE):
            yield torch.as_tensor(x[start : start + SIZE]), torch.as_tensor(y[start : start + SIZE])
class Batches(keras.utils.PyDataset):
    def __len__(self):
        return -(-len(x) // SIZE)
    def __getitem__(self, index):
        return x[index * SIZE : index * SIZE + SIZE], y[index * SIZE : index * SIZE + SIZE]
model = made()
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse")
"""
WEIGHTS = "\nweights = np.concatenate([weight.ravel() for weight in model.get_weights()])\n"
# The batch is a rank's. One process has batches of twice the size, and where steps are counted half as many.
OF_EACH = {
    "arrays": "model.fit(x, y, batch_size=SIZE, epochs=2, verbose=0)",
    "loader": "model.fit(DataLoader(rows, batch_size=SIZE, shuffle=True), epochs=2, verbose=0)",
    "loader, odd": "model.fit(DataLoader(all_rows, batch_size=SIZE), epochs=2, verbose=0)",
    "loader, counted": "model.fit(DataLoader(rows, batch_size=SIZE), epochs=2, steps_per_epoch=48 // SIZE, verbose=0)",
    "stream": "model.fit(DataLoader(Stream(), batch_size=None), epochs=2, verbose=0)",
    "PyDataset": "model.fit(Batches(), epochs=2, shuffle=False, verbose=0)",
    "generator": "model.fit((rows[i : i + SIZE] for i in range(0, 96, SIZE)), epochs=1, verbose=0)",
}
# The batch is that of all.
OF_ALL = {
    "workers": "model.fit(DataLoader(all_rows, batch_size=16, shuffle=True, num_workers=1), epochs=2, verbose=0)",
    "class weights": """
model = made(2)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, (x[:, 0] > 0).astype("int32"), batch_size=16, class_weight={0: 1.0, 1: 3.0}, epochs=2, verbose=0)
""",
    "an optimizer of PyTorch's in a train_step": """
class Own(keras.Sequential):
    def train_step(self, data):
        inputs, targets = data
        optimizer.zero_grad()
        loss = (self(inputs, training=True) - targets).square().mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}
model = Own([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd")
optimizer = torch.optim.Adam([variable.value for variable in model.trainable_variables], lr=0.01)
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
""",
}


def alone(code: str, folder: Path, backend: str = "torch") -> np.ndarray:
    """Return the weights that a process of its own ends with."""
    leave = f"import pickle, pathlib\npathlib.Path({str(folder / 'weights')!r}).write_bytes(pickle.dumps(weights))"
    (folder / "program.py").write_text(f"{code}{WEIGHTS}{leave}")
    command = [sys.executable, str(folder / "program.py")]
    subprocess.run(command, check=True, env=os.environ | {"KERAS_BACKEND": backend}, timeout=100)
    found: np.ndarray = pickle.loads((folder / "weights").read_bytes())
    return found


def compare(session: Session, code: str, wanted: np.ndarray, auto: AutoOptions | None) -> None:
    session.run(code + WEIGHTS, auto=auto, timeout_s=100)
    first, second = session.pull("weights").values()
    assert np.array_equal(first, second)
    assert np.abs(first - wanted).max() < 1e-5


@pytest.mark.parametrize("kind", slow_but(("loader, odd", "stream", "PyDataset"), OF_EACH))
def test_a_batch_for_each_rank(keras_pair: Session, kind: str, tmp_path: Path) -> None:
    wanted = alone(f"SIZE = 16\n{BEGIN}{OF_EACH[kind]}", tmp_path)
    compare(keras_pair, f"SIZE = 8\n{BEGIN}{OF_EACH[kind]}", wanted, PER_RANK)


@pytest.mark.parametrize("kind", slow_but(("workers", "an optimizer of PyTorch's in a train_step"), OF_ALL))
def test_a_batch_of_all_ranks(keras_pair: Session, kind: str, tmp_path: Path) -> None:
    code = f"SIZE = 16\n{BEGIN}{OF_ALL[kind]}"
    compare(keras_pair, code, alone(code, tmp_path), GLOBAL)


OPTIONS = {
    "predivided": "gradient_predivide_factor=2.0",
    "groups": "num_groups=2",
    "sum": "op=hvd.Sum",
    "a set of all": "process_set=everyone",
    "scaled loss": "",
}


@pytest.mark.parametrize("option", slow_but(("predivided", "a set of all"), OPTIONS))
def test_an_option_of_horovods_optimizer(keras_pair: Session, option: str, tmp_path: Path) -> None:
    check_option(keras_pair, option, tmp_path, "torch")


def check_option(session: Session, option: str, folder: Path, backend: str) -> None:
    """A step of all ranks has rows 0, 2, ... of a batch on rank 0, and the others on rank 1."""
    rate = 0.01 if option == "sum" else 0.02
    made = "keras.optimizers.SGD(RATE)"
    if option == "scaled loss":
        made = "keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(RATE), initial_scale=8.0)"
    fit = "model.fit(X, Y, batch_size=SIZE, epochs=2, shuffle=False, verbose=0)"
    order = "order = np.concatenate([np.r_[i : i + 16 : 2, i + 1 : i + 16 : 2] for i in range(0, 96, 16)])\n"
    one = f"{order}model.compile({made.replace('RATE', '0.02')}, 'mse')\n{fit}"
    wanted = alone(f"SIZE = 16\n{BEGIN}{one.replace('X, Y', 'x[order], y[order]')}", folder, backend)
    several = f"""
import jupyter_ddl.keras as hvd
hvd.init()
everyone = hvd.add_process_set([0, 1])
own = np.arange(hvd.rank(), 96, 2)
model.compile(hvd.DistributedOptimizer({made.replace("RATE", str(rate))}, {OPTIONS[option]}), "mse")
{fit.replace("X, Y", "x[own], y[own]")}
"""
    compare(session, f"SIZE = 8\n{BEGIN}{several}", wanted, None)


def test_layers_that_stay_each_ranks_own(keras_pair: Session) -> None:
    several = """
import jupyter_ddl.keras as hvd
hvd.init()
optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.05), local_layers=model.layers[-1])
model.compile(optimizer, "mse")
model.fit(x[hvd.rank() : 96 : 2], y[hvd.rank() : 96 : 2], batch_size=8, epochs=2, verbose=0)
shared, own = model.layers[0].get_weights()[0], model.layers[1].get_weights()[0]
"""
    keras_pair.run(f"SIZE = 8\n{BEGIN}{several}", timeout_s=60)
    assert np.array_equal(*keras_pair.pull("shared").values())
    assert not np.array_equal(*keras_pair.pull("own").values())
