"""The table of patches against the register of a real rank, after a cell that uses every layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

TRAINING = """
import keras, numpy as np, tensorflow as tf
x, y = np.random.rand(60, 4).astype('float32'), np.arange(60) % 3
model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,))])
model.compile(keras.optimizers.Adam(lr=0.01), 'sparse_categorical_crossentropy', metrics=['accuracy'])
history = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), epochs=1, verbose=0)
"""

# Compares by the objects themselves: a class has several public names.
COMPARISON = """
import importlib
from types import ModuleType
from jupyter_ddl.engine import patching
from jupyter_ddl.protocol.patch_table import PATCHES

def owners(text):
    parts = text.removesuffix('.*').split('.')
    owner = importlib.import_module(parts[0])
    for i, part in enumerate(parts[1:], 2):
        owner = getattr(owner, part) if hasattr(owner, part) else importlib.import_module('.'.join(parts[:i]))
    return [one for one in vars(owner).values() if isinstance(one, type)] if text.endswith('.*') else [owner]

def text_of(owner):
    return f'{owner.__module__}.{owner.__qualname__}' if isinstance(owner, type) else owner.__name__

# Of an object its class stands in the table.
def is_declared(patch, row):
    kind = patch.owner if isinstance(patch.owner, (type, ModuleType)) else None
    return (
        patch.name in row.names and patch.layer is row.layer
        and any(patch.owner is one or (kind is None and isinstance(patch.owner, one)) for one in owners(row.owner))
    )

made = patching.patches()
libraries = [one for one in made if not getattr(one.owner, '__module__', '').startswith('jupyter_ddl.')]
undeclared = [repr(one) for one in libraries if not any(is_declared(one, row) for row in PATCHES)]
missing = [
    (row.owner, name, row.layer.name)
    for row in PATCHES for name in row.names
    if any(hasattr(owner, name) for owner in owners(row.owner))
    and not any(is_declared(one, row) and one.name == name for one in made) is not row.is_passing
]
"""

UNDO = """
wrapped = {(one.layer.name, one.name) for one in made if one.owner is keras.Model}
stays = [repr(one) for one in patching.undo_all()]
stock = [
    'fit' not in vars(keras.Model),
    keras.Model.fit.__qualname__,
    hasattr(keras.Model.fit, '__wrapped__') and keras.Model.fit.__wrapped__.__module__.split('.')[0],
    hasattr(keras.Model, 'fit_generator'),
    tf.data.Dataset.map.__module__.split('.')[0],
    'jupyter_ddl' in str(tf.data.Dataset.map.__code__.co_filename),
]
"""


@pytest.fixture
def own() -> Iterator[Session]:
    """Return ranks of this test's own, which no other uses when their patches are undone."""
    with jupyter_ddl.start(n=2, name="patches") as session:
        yield session


def test_the_table_is_what_a_rank_has_and_all_of_it_can_be_undone(own: Session, tmp_path: Path) -> None:
    own.run(TRAINING, auto=AutoOptions(), checkpoint=tmp_path)
    own.run(COMPARISON)
    assert own.pull("undeclared") == {0: [], 1: []}
    assert own.pull("missing") == {0: [], 1: []}
    own.run(UNDO)
    assert {("FIT", "fit"), ("AUTO", "fit"), ("LEGACY", "fit")} <= own.pull("wrapped")[0]
    assert own.pull("stays") == {0: [], 1: []}
    assert own.pull("stock")[0] == [True, "TensorFlowTrainer.fit", "keras", False, "tensorflow", False]
    # Keras trains as it is; the rank lives on.
    own.run("plain = keras.Sequential([keras.layers.Dense(3)])\nplain.compile('sgd', 'mse')\nplain.fit(x, x[:, :3])")
